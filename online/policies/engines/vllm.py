"""The scheduler of vLLM's V1 engine: running requests first, then waiting ones, in one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instances import InvalidValueError
from instances.validation import chosen, ranged
from online.policy_interface import Decision, Setup, State, VisibleRequest, register_policy

from .base import EnginePolicy
from .block_pool import BlockPool


@dataclass(slots=True, eq=False)
class Job:
    """State of a request in the engine: tokens processed, blocks held, progress of its prefill.

    Attributes
    ----------
    request : VisibleRequest
        The request.
    index : int
        Index by which a `Decision` names the request.
    length : int
        Number of tokens of its prompt and of its output so far.
    computed : int
        Number of these tokens that are processed and stored.
    blocks : int
        Number of memory blocks that it holds.
    tokens_on_end : int
        Number of consecutive rounds, up to the last round, in which it emitted a token.
    in_prefill : bool
        Whether the last step that processed tokens of the request left other tokens unprocessed.
    finished_at : float or None
        Time of its last token. The engine may learn of it later. None before that time.
    """

    request: VisibleRequest
    index: int
    length: int
    computed: int = 0
    blocks: int = 0
    tokens_on_end: int = 0
    in_prefill: bool = False
    finished_at: float | None = None


@register_policy("vllm")
@dataclass(eq=False, repr=False, kw_only=True)
class VLLM(EnginePolicy):
    """The scheduler of vLLM's V1 engine: it makes the same decisions step by step.

    A step of the engine is a round. Each step serves the running requests first, in order of
    admission, then the waiting ones. A request processes as many of its unprocessed tokens as are
    left of the budget ``max_num_batched_tokens``. A prompt that gets fewer tokens than it needs is
    continued in the next step.

    If there is no free block for the tokens of a running request, the running request admitted last
    is preempted, which may be the same one. It loses its blocks, keeps its output tokens, and waits
    at the head of the queue. A step that preempts admits no request. Otherwise waiting requests are
    admitted in the order of the queue, up to the first that does not fit. A request fits if blocks
    for all its tokens are free. If other requests run, a share ``watermark`` of all blocks must
    also stay free. The admitted request gets only the blocks of the tokens processed in this step.

    No guarantee is known.

    Parameters that the engine also has carry its names and defaults, which are the same in 0.32 and
    0.33. Two rules differ in 0.32. ``prefill_schedule_interval`` has no effect there unless several
    engines run in parallel on parts of the requests. And under ``policy="priority"``, if the
    request to preempt is the one that needs a block, the step serves no request after it.

    Memory is counted by the instance's rule. The engine's own rule is `VLLM_BLOCKS`: blocks of 16
    tokens, the newest token of a request is stored in the next step, and prompts are stored in
    chunks.

    The rules are those of vLLM 0.33.0, in its files ``vllm/v1/core/sched/scheduler.py``,
    ``async_scheduler.py`` and ``request_queue.py``, ``vllm/v1/core/kv_cache_manager.py`` and
    ``block_pool.py``. This policy reproduces recorded decisions of the engine step by step. Left
    out are prompts that share a prefix, speculative decoding, encoders, adapters, pipelines, remote
    caches, sliding windows and a model's limit on the sequence length. The asynchronous scheduler
    computes a token in vain if a request ends before its longest output. This is also left out:
    here outputs end where the engine expects it.

    Parameters
    ----------
    max_num_batched_tokens : int, default 2048
        Largest number of tokens that a step processes. The engine's default is 8,192 or 16,384 on
        larger machines.
    max_num_seqs : int, default 256
        Largest number of running requests. The engine's default is 1,024 on larger machines.
    long_prefill_token_threshold : int, default 0
        Largest number of tokens of one request that a step processes if there are other requests.
        0 sets no limit.
    long_prefill_token_threshold_adaptive : bool, default False
        Whether ``long_prefill_token_threshold``, if not 0, is raised to ``max_num_batched_tokens``
        divided by the number of running and waiting requests.
    enable_chunked_prefill : bool, default True
        Whether a prompt that exceeds the rest of the budget is cut. If not, the prompt waits, and
        so do all requests behind it.
    prefill_schedule_interval : int, default 1
        Least number of steps from one step that processes prompts to the next one. It applies while
        some request emits tokens, if no request still waited after the last step that could admit
        requests.
    scheduler_reserve_full_isl : bool, default True
        Whether admission requires free blocks for all tokens of a request, not only for those
        processed in the first step.
    watermark : float, default 0.0
        Share of the blocks that admission leaves free, in [0, 1).
    policy : str, default "fcfs"
        The request to preempt. ``"fcfs"``: the running request admitted last. ``"priority"``: the
        running request that is last by ``order``. The sort keys of ``order`` then stand for the
        engine's priorities.
    order : str, default "fcfs"
        Order of the waiting queue, a name of `ORDERS`. Preempted requests return to their place in
        this order. If ``order`` and ``policy`` are both ``"fcfs"``, they wait in front of all
        others.
    ageing : float, default 0.0
        Amount by which a request's sort key falls per unit of waiting time; see `WaitingQueue`.
    asynchronous : bool, default True
        Whether a step is planned before the results of the previous step are known. The blocks of a
        finished request are then free a step later.
    prefix_caching : bool, default True
        Whether a preempted request finds its blocks again, except those that were given to another
        request in the meantime.
    """

    max_num_batched_tokens: int = ranged(2048, minimum=1)
    max_num_seqs: int = ranged(256, minimum=1)
    long_prefill_token_threshold: int = ranged(0, minimum=0)
    long_prefill_token_threshold_adaptive: bool = False
    enable_chunked_prefill: bool = True
    prefill_schedule_interval: int = ranged(1, minimum=1)
    scheduler_reserve_full_isl: bool = True
    watermark: float = ranged(0.0, minimum=0, below=1)
    policy: str = chosen("fcfs", "priority")
    asynchronous: bool = True
    prefix_caching: bool = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty engine with all blocks free.

        Raises
        ------
        InvalidValueError
            The run has prefill rounds, which emit no token; the engine has no such rounds.
        """
        super().reset(setup)
        rule = setup.memory_rule
        self._size = rule.block_size
        self._in_chunks = rule.prompt_allocation == "chunks"
        # _newest is 1 if a request stores its newest output token in the step that emits the token,
        # and 0 if it does so in the next step.
        self._newest = 1 - rule.unstored
        blocks = setup.memory_limit // self._size
        self._pool = BlockPool(blocks, keeps=self.prefix_caching)
        # Number of blocks that admission leaves free. As in the engine, the share ``watermark``
        # applies to one block more, the engine's reserved null block, and the product is a float.
        self._left_free = int(self.watermark * (blocks + 1))
        self._jobs: dict[int, Job] = {}
        self._running: list[Job] = []
        self._planned_until = self._gave_way = 0
        # _steps_run counts the steps that processed tokens. _last_prefill is the number of the last
        # step that processed prompts. _left_waiting is whether requests still waited after the last
        # step that could admit requests.
        self._steps_run, self._last_prefill = 0, -self.prefill_schedule_interval
        self._left_waiting = False
        # ``scheduled`` has the tokens to process in the last planned step by request, in order.
        # ``preempted`` has the requests that this step preempts.
        self.scheduled, self.preempted = dict[int, int](), list[int]()

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Put new requests into the queue. Preempted requests are already in it."""
        for request in requests:
            if request.index not in self._jobs:
                self._jobs[request.index] = Job(request, request.index, request.prompt_length)
                self._queue.push(request)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Record finished requests, and free their blocks.

        With ``asynchronous`` the blocks are freed one step later.
        """
        self._catch_up(state.round_index)
        for request in requests:
            self._jobs.pop(request.index).finished_at = state.time
        if not self.asynchronous:
            self._free_finished()

    def decide(self, state: State) -> Decision:
        """Plan the next step. ``wake`` is set to the round from which steps may differ from it."""
        now = state.round_index
        self._catch_up(now)
        if any(j.finished_at is not None and j.finished_at < state.time for j in self._running):
            # A request in ``_running`` finished before the present time. Since then the engine has
            # been idle or has planned an empty step, so it frees the blocks of the request now.
            self._free_finished()
        running, self.scheduled, self.preempted = list(state.running), {}, []
        self._limit_prompts()
        budget = self._serve_running()
        reuse = {} if self.preempted else self._admit(budget)
        decision = Decision(
            start=[i for i in self.scheduled if i not in state.running],
            hold=[i for i in running if i not in self.scheduled and i not in self.preempted],
            preempt=[i for i in self.preempted if i in state.running],
            prefill={
                index: tokens
                for index, tokens in self.scheduled.items()
                if self._jobs[index].computed + tokens < self._jobs[index].length
            },
            reuse=reuse,
            # In continuous time a step without requests takes no time.
            wake=now + 1 + self._steps_alike() if self.scheduled or not self._is_timed else now,
        )
        self._carry_out(now)
        return decision

    def _limit_prompts(self) -> None:
        """Prepare the limits of a step on prompts.

        These are the largest number of tokens of one request (None without limit), and whether the
        step leaves out prompts because of ``prefill_schedule_interval``.
        """
        count = len(self._running) + len(self._queue)
        longest = self.long_prefill_token_threshold if count > 1 else 0
        if longest and self.long_prefill_token_threshold_adaptive:
            longest = max(longest, self.max_num_batched_tokens // count)
        self._longest = longest or None
        self._defers_prompts = (
            self._steps_run + 1 - self._last_prefill < self.prefill_schedule_interval
            and not self._left_waiting
            and any(not job.in_prefill for job in self._running)
        )
        self._any_prompt = False

    def _serve_running(self) -> int:
        """Plan how many tokens of each running request the step processes.

        Preempt requests if blocks are lacking. Return how many tokens the step may still process.
        """
        budget, position = self.max_num_batched_tokens, 0
        while position < len(self._running) and budget:
            job = self._running[position]
            if job.finished_at is not None or (self._defers_prompts and job.in_prefill):
                position += 1
                continue
            if job.length - job.computed == 1:
                tokens, needed = 1, -(-(job.length + self._newest) // self._size) - job.blocks
            else:
                tokens = min(self._wanted(job), budget)
                needed = self._blocks_after(job, tokens) - job.blocks
            while needed > self._pool.free:
                victim = self._victim()
                place = self._running.index(victim)
                del self._running[place]
                position -= place < position
                planned = self.scheduled.pop(victim.index, 0)
                budget += planned
                self._make_wait(victim, planned=bool(planned))
                if victim is job:
                    break
            else:
                if needed:
                    self._pool.take(needed)
                    job.blocks += needed
                self._any_prompt |= job.in_prefill
                self.scheduled[job.index] = tokens
                budget -= tokens
                position += 1
        return budget

    def _admit(self, budget: int) -> dict[int, int]:
        """Admit waiting requests. The step may process ``budget`` more tokens.

        Some admitted requests were preempted before. For these, return by index how many of their
        tokens are still stored.
        """
        reuse: dict[int, int] = {}
        while self._queue and budget and len(self._running) < self.max_num_seqs:
            job = self._jobs[self._queue.head]
            found = self._pool.found(job.index, (job.length - 1) // self._size)
            job.computed = found * self._size
            in_prefill = job.length - job.computed > 1
            tokens = self._wanted(job)
            if in_prefill and self._defers_prompts:
                break
            if tokens > budget and not self.enable_chunked_prefill:
                self._check_budget(job, tokens)
                break
            tokens = min(tokens, budget)
            needed = self._blocks_after(job, tokens)
            if self.scheduler_reserve_full_isl:
                needed = -(-(job.length + self._newest) // self._size)
            if needed + (self._left_free if self._running else 0) > self._pool.free:
                break
            self._queue.pop()
            if found:
                self._pool.reclaim(job.index, found)
                reuse[job.index] = job.computed
            job.blocks = self._blocks_after(job, tokens)
            self._pool.take(job.blocks - found)
            self._running.append(job)
            self._any_prompt |= in_prefill
            self.scheduled[job.index] = tokens
            budget -= tokens
        if not self._defers_prompts:
            self._left_waiting = bool(self._queue)
        return reuse

    def _wanted(self, job: Job) -> int:
        # The step processes at least 1 token. A request with an empty prompt has no token left to
        # process before its first output token.
        left = max(1, job.length - job.computed)
        return left if self._longest is None else min(left, self._longest)

    def _check_budget(self, job: Job, tokens: int) -> None:
        budget, name = self.max_num_batched_tokens, "max_num_batched_tokens"
        if tokens > budget:
            whose = f"the {tokens} tokens of request {job.request.id!r}"
            reason = f"is less than {whose}, which enable_chunked_prefill=False leaves whole"
            raise InvalidValueError("policy", name, budget, reason)

    def _blocks_after(self, job: Job, tokens: int) -> int:
        """Return the blocks that a request holds after it has processed ``tokens`` more tokens."""
        computed = job.computed + tokens
        if computed >= job.length:
            stored = job.length + self._newest
        else:
            stored = computed if self._in_chunks else job.length
        return -(-stored // self._size)

    def _victim(self) -> Job:
        if self.policy == "fcfs":
            return self._running[-1]
        return max(self._running, key=lambda job: self._queue.key(job.request))

    def _make_wait(self, job: Job, *, planned: bool) -> None:
        # When the preempted request returns, it can find a block again if the engine knew all
        # tokens of the block. The asynchronous engine knows the newest token one step late, or as
        # soon as the next step of the request is planned.
        late = self.asynchronous and job.tokens_on_end > 1 and not planned
        known = job.computed - late
        self._pool.give_back(job.index, job.blocks, known // self._size)
        job.blocks = job.computed = job.tokens_on_end = 0
        self.preempted.append(job.index)
        if job.finished_at is None:
            self._gave_way += 1
            in_front = self.policy == self.order == "fcfs"
            self._queue.push(job.request, -self._gave_way if in_front else None)

    def _steps_alike(self) -> int:
        """Return how many of the next steps will be like the planned one.

        Steps are alike if each running request processes one token and no other request is admitted
        or preempted. The result is 0 if the planned step is not of this kind.
        """
        running = self._running
        if self.preempted or not running or len(self.scheduled) < len(running):
            return 0
        if any(job.computed + 1 != job.length for job in running):
            return 0
        if self._defers_prompts and self._queue:
            return 0
        # Steps are alike until the free blocks, and the free places in the blocks of the requests,
        # are used up. No block is freed before that, so no waiting request fits.
        each, rest = divmod(self._pool.free, len(running))
        spare = [job.blocks * self._size - job.length - self._newest for job in running]
        return each * self._size + sorted(spare)[rest]

    def _carry_out(self, now: int) -> None:
        """Update the records of all requests as if the planned step had run."""
        for job in self._running:
            tokens = self.scheduled.get(job.index)
            if tokens is None:
                job.tokens_on_end = 0
                continue
            job.computed += tokens
            job.in_prefill = job.computed < job.length
            if not job.in_prefill:
                job.computed = job.length
                job.length += 1
                job.tokens_on_end += 1
            else:
                job.tokens_on_end = 0
        self._planned_until = now + 1 if self.scheduled else now
        self._steps_run += bool(self.scheduled)
        if self._any_prompt:
            self._last_prefill = self._steps_run
        if self.asynchronous:
            self._free_finished()

    def _catch_up(self, now: int) -> None:
        """Update the records for the steps since the last decision.

        Each of these steps was like the planned one: one token for each running request.
        """
        steps = now - self._planned_until
        if steps <= 0:
            return
        self._planned_until = now
        running = [job for job in self._running if job.finished_at is None and self.scheduled]
        self._steps_run += steps if running else 0
        for job in running:
            job.length += steps
            job.computed += steps
            job.tokens_on_end += steps
            blocks = -(-(job.length - 1 + self._newest) // self._size)
            if blocks > job.blocks:
                self._pool.take(blocks - job.blocks)
                job.blocks = blocks

    def _free_finished(self) -> None:
        for job in self._running:
            if job.finished_at is not None:
                self._pool.give_back(job.index, job.blocks, job.computed // self._size)
        self._running = [job for job in self._running if job.finished_at is None]
