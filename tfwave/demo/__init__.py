"""The demo's network of hosts, its processes and its models; benches run on them, too."""
