"""Tables of rows on parameter servers: which rows batches need, how these travel, and how they are updated."""
