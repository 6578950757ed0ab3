"""Kernels over columns of whole blocks: key words, hash partitioning and bucket indexes. They know nothing of streams, queries or files.

It may import `expressions`, `model` and `errors` only. Start reading at `key_words`, then `index`.

| module | contents |
|---|---|
| `block` | `Block`: tuples as Arrow columns |
| `key_words` | keys as 64-bit words, and the exact comparison of keys |
| `widening` | columns in the type in which a comparison takes place |
| `slots` | the slot of a partitioned store for each key; rows grouped by slot |
| `index` | the bucket index over key words, and the loops that probe it |
| `hashing` | hash functions of words and bytes |
| `arrow_views` | Arrow arrays as numpy arrays |
| `numba_kernel` | how loops over rows are compiled |
"""
