"""What every run leaves: its folder, its manifest, its traces, and where it ran."""
