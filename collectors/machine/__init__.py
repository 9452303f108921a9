"""What the machine is and has: accelerators, memory."""
