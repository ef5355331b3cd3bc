"""GraphDefs: their files, names, structure, transfers and differences, and the one editor of them."""
