"""Many ranks: the unit of work, and the engines that do units in a loop, in processes, on Ray."""
