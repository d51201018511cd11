"""A believable agent with a history, so that a first look at the console shows the product at work."""
