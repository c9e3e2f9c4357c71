"""A store whose texts are encrypted: it stands before a real store, whatever its kind.

Whoever uses it writes and reads plain values. What it hands on to the store behind it is encrypted,
and what it is given from there it opens. So no other part of a program knows of encryption, no
store does, and a program without keys never comes here.

`records.py` says which texts of which records are encrypted. Every other file has the verbs of a
noun that carry such texts; the verbs that carry none are those of the store behind.
"""
