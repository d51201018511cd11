"""Ninja's command under its own name: its package is no installed app."""

from ninja.management.commands.export_openapi_schema import Command

__all__ = ["Command"]
