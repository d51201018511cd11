"""The model that says whether a sentence asks its reader to act: its sentences and how it is fitted."""
