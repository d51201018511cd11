"""What memory is read for a prompt: candidates, pins, what was retired, what the conversation has said."""
