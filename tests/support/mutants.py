"""Certificates changed at random: what an attacker, or a broken disk, makes of an honest one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from certificates_by_definition import Document, instance_of


def mutant_of(document: Document, rng: np.random.Generator) -> Document:
    """The document after one to three edits, often with the digest of a changed instance."""
    forged = copy.deepcopy(document)
    for _ in range(rng.integers(1, 4)):
        proof = forged.get("proof")
        is_whole = not proof or not isinstance(proof, dict | list) or rng.random() < 0.3
        part, key = _place(forged if is_whole else proof, rng)
        if isinstance(part, list) and rng.random() < 0.4:
            _edit_list(part, key, rng)
        else:
            part[key] = _another(part[key], rng)
    instance = forged.get("instance")
    if isinstance(instance, dict) and instance != document["instance"] and rng.random() < 0.8:
        try:
            repaired = instance_of(instance["requests"], instance["memory_limit"])
            instance["digest"] = repaired.digest
        except (KeyError, TypeError, ValueError):
            pass
    return forged


def _place(part: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """An entry at any depth: what holds it, and its key there."""
    while True:
        keys = list(part) if isinstance(part, dict) else range(len(part))
        key = keys[rng.integers(len(keys))]
        if not isinstance(part[key], dict | list) or not part[key] or rng.random() < 0.2:
            return part, key
        part = part[key]


def _edit_list(part: list[Any], key: int, rng: np.random.Generator) -> None:
    """An entry of it, or a stretch of entries, is taken out, doubled or moved."""
    end = key + int(rng.integers(1, len(part) - key, endpoint=True))
    kind = rng.integers(4)
    if kind == 0:
        del part[key:end]
    elif kind == 1:
        part[key:key] = copy.deepcopy(part[key:end])
    elif kind == 2:
        part += copy.deepcopy(part[key:end]) * int(rng.integers(1, 100))
    else:
        part.insert(int(rng.integers(len(part))), part.pop(key))


def _another(value: Any, rng: np.random.Generator) -> Any:
    """A value in place of another one, mostly of its kind and scaled."""
    if type(value) is int and rng.random() < 0.97:
        factor = int(rng.choice([2, 3, 10, 100, 1000, 10**6]))
        near = value + int(rng.choice([-2, -1, 1, 2]))
        return [near, near, value * factor, value // factor, value + factor, 0, -value][
            rng.integers(7)
        ]
    if isinstance(value, list) and rng.random() < 0.9:
        return value[::-1] if rng.random() < 0.5 else []
    return [None, True, 0.5, "x", {}, [], 0, 10**30][rng.integers(8)]
