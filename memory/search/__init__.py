"""The search index and everything that reads or fills it."""

from memory.search.request import SearchRequest
from memory.search.result import SearchHit, SearchResult
from memory.search.search import search

__all__ = ["SearchHit", "SearchRequest", "SearchResult", "search"]
