"""Reading logs: bounded clean lines, what they state, what they prove. Nothing here decides which finding is the cause."""
