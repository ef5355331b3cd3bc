"""What a step would take elsewhere: on other networks, with more servers or workers, under other orders."""
