"""`--stage serve`: serving engines under load."""
