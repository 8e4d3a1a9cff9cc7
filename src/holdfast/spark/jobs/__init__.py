"""Jobs that ship: each is DataFrame → DataFrame steps and a function that runs them."""
