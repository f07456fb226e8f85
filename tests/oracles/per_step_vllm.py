"""vLLM's V1 scheduler one step at a time, block by block: an oracle for the policy `vllm`.

Shares no code with the package. Blocks have numbers, a queue of free ones, and the name (request,
position) of what they were last filled with.
"""

from __future__ import annotations

from typing import Any

Row = list[Any]


def steps_of(work: dict[str, Any]) -> list[Row]:
    """Rows [step, [[request, tokens], ...], preempted, emitted, blocks in use] of a workload."""
    prompts, outputs, arrivals = (
        work[key] for key in ("prompt_lengths", "output_lengths", "arrival_steps")
    )
    size, threshold = work["block_size"], work["long_prefill_token_threshold"]
    most, interval = work["max_num_batched_tokens"], work.get("prefill_schedule_interval", 1)
    last_prefill, executed, capacity_bound = -interval, 0, False
    ahead, by_priority = work["async_scheduling"], work["policy"] == "priority"
    total = work["num_blocks"]
    free, names = list(range(total)), {}
    n = len(prompts)
    spare = int(work["watermark"] * (total + 1))
    done, out, known, named = [0] * n, [0] * n, [0] * n, [0] * n
    is_prefill_chunk = [False] * n
    table: list[list[int]] = [[] for _ in range(n)]
    running, waiting, rows = [], [], []
    pending: list[int] = []  # Requests whose tokens the scheduler has not heard of yet.
    due = sorted(range(n), key=lambda i: (arrivals[i], i))
    # Under "priority" a request's is its output length, where the workload says so.
    by_output = work.get("order") == "shortest-output"
    ranked = sorted(due, key=lambda i: outputs[i]) if by_output else due
    place = {i: position for position, i in enumerate(ranked)}

    def get(i: int, tokens: int) -> bool:
        missing = -(-tokens // size) - len(table[i])
        if missing > len(free):
            return False
        for _ in range(missing):
            names.pop(free[0], None)
            table[i].append(free.pop(0))
        return True

    def name(i: int, tokens: int) -> None:
        named[i] = max(named[i], tokens // size if work["prefix_caching"] else 0)

    def release(i: int) -> None:
        # What it was given in this step it has not processed.
        filled = min(named[i], done[i] // size)
        for position, block in reversed(list(enumerate(table[i]))):
            if position < filled:
                names[block] = (i, position)
                free.append(block)
            else:
                free.insert(0, block)
        table[i], named[i], done[i] = [], 0, 0

    def hear() -> None:
        ended = []
        for i in pending:
            known[i] += 1
            if i in running:
                name(i, done[i] - (out[i] - known[i]))
            if known[i] == outputs[i]:
                ended.append(i)
        for i in ended:
            if i in running:
                running.remove(i)
                release(i)
            else:
                waiting.remove(i)
        pending.clear()

    while any(one < o for one, o in zip(known, outputs, strict=True)):
        waiting += [i for i in due if arrivals[i] == len(rows)]
        if by_priority:
            waiting.sort(key=place.__getitem__)
        budget, at, gone = most, 0, []
        eligible = len(running) + len(waiting)
        limit = threshold if eligible > 1 else 0
        if limit and work.get("long_prefill_token_threshold_adaptive"):
            limit = max(limit, most // eligible)
        decoding = any(not is_prefill_chunk[i] for i in running)
        is_early = executed + 1 - last_prefill < interval
        deferred = is_early and decoding and not capacity_bound
        prefilled = False
        given: dict[int, int] = {}
        while at < len(running) and budget:
            i = running[at]
            if out[i] == outputs[i]:  # Its last token is on its way.
                at += 1
                continue
            if deferred and is_prefill_chunk[i]:
                at += 1
                continue
            tokens = min(prompts[i] + out[i] - done[i], limit or 10**9, budget)
            while not (fits := get(i, done[i] + tokens)):
                victim = max(running, key=place.__getitem__) if by_priority else running[-1]
                if running.index(victim) < at:
                    at -= 1
                running.remove(victim)
                budget += given.pop(victim, 0)
                release(victim)
                gone.append(victim)
                waiting.insert(0, victim)
                if victim == i:
                    break
            if not fits:
                continue
            prefilled = prefilled or is_prefill_chunk[i]
            given[i] = tokens
            name(i, min(done[i] + tokens, prompts[i] + known[i]))
            budget -= tokens
            at += 1
        while not gone and waiting and budget and len(running) < work["max_num_seqs"]:
            i = waiting[0]
            length = prompts[i] + known[i]
            where = {what: block for block, what in names.items()}
            hits: list[int] = []
            while (i, len(hits)) in where and (len(hits) + 1) * size < length:
                hits.append(where[i, len(hits)])
            left = length - len(hits) * size
            if deferred and left > 1:
                break
            tokens = min(left, limit or 10**9)
            if tokens > budget and not work.get("enable_chunked_prefill", True):
                break
            tokens = min(tokens, budget)
            whole = work.get("scheduler_reserve_full_isl", True)
            needed = -(-(length if whole else length - left + tokens) // size)
            if needed + (spare if running else 0) > len(free):
                break
            for block in hits:
                table[i].append(block)
                free.remove(block)
                del names[block]
            prefilled = prefilled or left > 1
            done[i] = len(table[i]) * size
            assert get(i, done[i] + tokens)
            name(i, done[i] + tokens)
            running.append(waiting.pop(0))
            given[i] = tokens
            budget -= tokens
        if not gone and not deferred:
            capacity_bound = bool(waiting)
        executed += bool(given)
        if prefilled:
            last_prefill = executed
        emitted = []
        in_use = total - len(free)
        for i, tokens in given.items():
            done[i] += tokens
            is_prefill_chunk[i] = done[i] < prompts[i] + out[i]
            if done[i] == prompts[i] + out[i]:
                emitted.append(i)
        if ahead:
            for i in emitted:
                out[i] += 1
            hear()
            pending += emitted
        else:
            for i in emitted:
                out[i] += 1
            pending += emitted
            hear()
        rows.append([len(rows), [[i, k] for i, k in given.items()], sorted(gone), emitted, in_use])
    return rows
