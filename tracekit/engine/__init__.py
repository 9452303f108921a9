"""Reading of many ranks: units of work, and engines that run them."""
