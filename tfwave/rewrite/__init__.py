"""What rewrites are made of: what a step gets at, its copies, its blocks and its waves."""
