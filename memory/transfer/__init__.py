"""Bringing memory in from elsewhere, and taking an agent out and in again whole."""
