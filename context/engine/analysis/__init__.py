"""What is read off the input and decided before memory is searched: frame, intent, plan, budget."""
