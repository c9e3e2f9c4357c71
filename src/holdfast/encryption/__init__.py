"""The keys of a program, and how a text is encrypted with them.

`keyring.py` has the keys by their ids. `sealing.py` encrypts and opens single texts, each bound to
its owner, its task and its field; which texts of a store are encrypted is said in
`holdfast.store.sealed`. `signing.py` signs tokens of people who may answer, and their votes.
"""
