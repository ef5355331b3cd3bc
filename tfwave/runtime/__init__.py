"""What obeys plans in TensorFlow's processes: the native library, servers, pools, the ledger and the stash."""
