"""Two runs side by side: what differs, by how much, and whether that is more than noise."""
