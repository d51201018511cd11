"""Search for each kind of input, beside meaning alone and words alone."""
