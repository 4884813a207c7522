"""The benchmark: targets feed drafters, each drafter thread trains its replica, the main thread watches.

Knows who owns what and what is written about a run; what a drafter does with a batch is in `step`.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from . import amplify, compat, imports, machine, throughput
from .attention import FlexAttention
from .data import Batch, Feed, make_sample, sample_anchors, serve
from .model import build_masks, make_drafter, make_target
from .observe import CacheWatch, Observer
from .replicas import Averager, MasterAdamW
from .result import Progress, replicas_document, thread_document
from .step import Replica, drafter_step, features
from .threads import Crew, Worker

if TYPE_CHECKING:
    from .attention import Attention
    from .config import TrainConfig
    from .model import Target
    from .result import Request, ResultFile
    from .threads import Hang
    from .workarounds import Workaround

DYNAMIC = {"none": None, "true": True, "false": False}


class Run:
    """One benchmark run: what is shared by its threads, and what is written about it."""

    def __init__(self, request: Request, config: TrainConfig, workaround: Workaround, result: ResultFile) -> None:
        self.request, self.config, self.workaround, self.result = request, config, workaround, result
        self.progress = Progress(request.progress)
        self.crew = Crew(deadline_s=config.deadline_s, on_tick=self.record, on_end=self._ended)
        self.observer = Observer(self.crew.here)
        self.feed = Feed(config)
        self.averager = Averager(f"drafter-{index}" for index in range(config.num_drafters))
        self.cache = CacheWatch()
        self.warmed_reason = ""
        self.targets: list[Target] = []
        self.replicas: list[Replica] = []
        self.utilization: list[list[int]] = []

    def execute(self) -> Hang | None:
        """Prepare the process, build the models, train; returns the hang that ended it, if one did."""
        config = self.config
        self._announce("preparing")
        torch.set_num_threads(config.torch_threads)
        self.observer.install()
        self._set_limit()
        self.workaround.prepare()
        if self.request.amplify:
            amplify.prepare()
        changes = imports.load(self.request.imports)
        environment = {**machine.describe([each["package"] for each in changes]), "import_changes": changes}
        self.result.write("environment", environment=environment, workaround=self.workaround.document())
        self._warm()
        self.attend = self.workaround.attention(self._attention, self.observer.note_dense)
        self._announce("building")
        self._build(self.attend)
        self.record("rehearsing")
        self.workaround.rehearse(self)
        self.record("training")
        hang = self.crew.run()
        if hang is None:
            self.progress.close()
        self.record("hung" if hang else "finished", finished=hang is None, hang=hang and dataclasses.asdict(hang))
        return hang

    def _announce(self, phase: str) -> None:
        """Tell the parent that the main thread has come to a new phase."""
        self.progress.note(phase=phase, thread="main", step=0, steps=self.config.steps)

    def num_compiles(self) -> int:
        """Graphs compiled so far in the process."""
        return self.observer.compiles

    def num_dense_calls(self) -> int:
        """Attention calls so far that ran unfused."""
        return self.observer.dense_calls

    def masks(self, *, drafter: int, step: int) -> dict[str, Any]:
        """The masks of one step, built in the calling thread on the drafter's device."""
        sample = make_sample(self.config, drafter=drafter, step=step)
        anchors_BN, keep_BN = sample_anchors(self.config, sample, drafter=drafter, step=step)
        device = self.replicas[drafter].drafter.embed_VM.device
        context = sample.tokens_BS.shape[1]
        return build_masks(self.config, self.attend, anchors_BN.to(device), keep_BN.to(device), context)

    def rehearse(self, *, drafter: int, step: int) -> None:
        """One step of a drafter in the calling thread; its gradients are thrown away."""
        replica = self.replicas[drafter]
        device = str(replica.drafter.embed_VM.device)
        _on_device(device)()
        worker = Worker(name="main", role="drafter", device=device, body=lambda _worker: None)
        sample = make_sample(self.config, drafter=drafter, step=step)
        batch = Batch(sample=sample, features_BSF=features(self.targets[self.feed.source(drafter, step)], sample))
        anchors_BN, keep_BN = sample_anchors(self.config, sample, drafter=drafter, step=step)
        drafter_step(worker, replica, self.attend, batch, anchors_BN, keep_BN, workaround=self.workaround)
        replica.optimizer.discard()

    def record(self, phase: str = "training", **parts: Any) -> None:
        """Write everything known so far."""
        if machine_utilization := machine.gpu_utilization():
            self.utilization.append(machine_utilization)
        drafters = [worker for worker in self.crew.workers if worker.role == "drafter"]
        measured = throughput.measure(
            drafters,
            warmup_steps=self.config.warmup_steps,
            block_size=self.config.block_size,
            batch_size=self.config.batch_size,
            compile_s=self.observer.compile_s(),
        )
        self.result.write(
            phase,
            threads=[thread_document(worker) for worker in self.crew.workers],
            replicas=replicas_document(self.crew.workers, self.averager.group_sizes),
            process=self._process_document(),
            throughput=dataclasses.asdict(measured),
            workaround=self.workaround.document(),
            **parts,
        )

    def _process_document(self) -> dict[str, Any]:
        samples = self.utilization
        return self.observer.snapshot() | {
            "warmed_in_main": bool(self.warmed_reason),
            "warmed_reason": self.warmed_reason,
            "peak_rss_bytes": machine.peak_rss_bytes(),
            "peak_gpu_bytes": machine.peak_gpu_bytes(),
            "gpu_utilization": [sum(column) / len(samples) for column in zip(*samples, strict=True)],
            "fx_flag_global": compat.fx_flag_is_global(),
            "cache": self.cache.snapshot(),
        }

    def _set_limit(self) -> None:
        compat.set_recompile_limit(2 if self.request.force == "recompile-limit" else self.config.recompile_limit)

    def _warm(self) -> None:
        """Compile one small function in the main thread where the first concurrent compilation may segfault."""
        choice = self.config.warm_in_main
        if choice == "never" or (choice == "auto" and not compat.first_compile_may_segfault()):
            return
        torch.compile(lambda x: x.sin() + 1, backend=self.config.backend)(
            torch.ones(4, requires_grad=True)
        ).sum().backward()
        self.warmed_reason = (
            "asked for" if choice == "always" else "first concurrent compile may segfault on this build without a GPU"
        )

    def _attention(self) -> FlexAttention:
        config = self.config
        return FlexAttention(
            device_type=torch.device(config.drafter_devices[0]).type,
            backend=config.backend,
            dynamic=DYNAMIC[config.dynamic],
            compile_masks=config.compile_masks,
            compiled=self.request.force != "dense",
            count_compiles=self.observer.count_compiles,
            on_dense=self.observer.note_dense,
            before_call=self.workaround.before_call,
            serial=threading.Lock() if self.request.force else None,
        )

    def _build(self, attend: Attention) -> None:
        """Make one target and one replica per thread, and the threads."""
        config = self.config
        on_device = {device: make_target(config, device) for device in config.target_devices[: config.num_targets]}
        for index in range(config.num_targets):
            device = config.target_devices[index % len(config.target_devices)]
            self.targets.append(on_device[device])
            self.crew.add(self._target_worker(index, device, on_device[device]))
        for index in range(config.num_drafters):
            device = config.drafter_devices[index % len(config.drafter_devices)]
            drafter = make_drafter(config, self.targets[0], device)
            rounds = config.steps // max(1, config.average_every)
            optimizer = MasterAdamW(drafter.parameters(), config, num_steps=rounds)
            replica = Replica(index=index, drafter=drafter, optimizer=optimizer)
            self.replicas.append(replica)
            self.crew.add(self._drafter_worker(replica, device, attend))

    def _target_worker(self, index: int, device: str, target: Target) -> Worker:
        def body(worker: Worker) -> None:
            def made(tokens: int, wait_s: float) -> None:
                worker.steps, worker.step = worker.steps + 1, worker.steps + 1
                worker.tokens, worker.queue_wait_s = worker.tokens + tokens, worker.queue_wait_s + wait_s
                worker.enter("serve")

            serve(self.config, self.feed, target=index, features=functools.partial(features, target), made=made)

        return Worker(name=f"target-{index}", role="target", device=device, body=body, prepare=_on_device(device))

    def _drafter_worker(self, replica: Replica, device: str, attend: Attention) -> Worker:
        def prepare() -> None:
            _on_device(device)()
            self._set_limit()
            self.workaround.prepare_thread()

        def body(worker: Worker) -> None:
            if self.request.amplify:
                amplify.stagger(replica.index)
            for step in range(self.config.steps):
                worker.step = step
                if not self._step_or_record(worker, replica, attend):
                    continue
                self.progress.note(phase="training", thread=worker.name, step=step + 1, steps=self.config.steps)

        return Worker(name=f"drafter-{replica.index}", role="drafter", device=device, body=body, prepare=prepare)

    def _step_or_record(self, worker: Worker, replica: Replica, attend: Attention) -> bool:
        """One step; amplified, a failed step is recorded and the thread goes on, as a supervisor would restart it."""
        try:
            self._step(worker, replica, attend)
        except Exception as error:
            if not self.request.amplify or len(worker.failures) >= amplify.MAX_FAILURES:
                raise
            self.crew.record_failure(error, worker)
            replica.optimizer.discard()
            return False
        return True

    def _step(self, worker: Worker, replica: Replica, attend: Attention) -> None:
        """One step with its accounting: take a batch, learn from it, meet the others, step the optimizer."""
        config, step = self.config, worker.step
        compiles, started = self.observer.compiles, time.monotonic()
        with worker.doing("queue"):
            batch = self.feed.get(drafter=replica.index, step=step)
        worker.queue_wait_s += time.monotonic() - started
        anchors_BN, keep_BN = sample_anchors(config, batch.sample, drafter=replica.index, step=step)
        report = drafter_step(worker, replica, attend, batch, anchors_BN, keep_BN, workaround=self.workaround)
        if config.average_every == 0:
            replica.optimizer.step()
        elif (step + 1) % config.average_every == 0:
            waited = time.monotonic()
            with worker.doing("average"):
                self.averager.average(worker.name, replica.optimizer.gradients())
            worker.average_wait_s += time.monotonic() - waited
            with worker.doing("optimizer"):
                replica.optimizer.step()
        worker.losses.append(report.loss.item())
        worker.accuracies.append(report.accuracy.item())
        worker.acceptances.append(report.acceptance.item())
        worker.step_times_s.append(time.monotonic() - started)
        worker.step_tokens.append(batch.sample.tokens_BS.numel())
        worker.step_anchors.append(int(keep_BN.sum()))
        worker.step_compiles.append(self.observer.compiles - compiles)
        worker.tokens += batch.sample.tokens_BS.numel()
        worker.steps += 1

    def _ended(self, worker: Worker) -> None:
        """A thread is over, well or not: let nobody wait for it, and put what it left on disk at once."""
        self.feed.leave(worker.name)
        self.averager.leave(worker.name)
        phase = "completed" if worker.completed else "failed"
        self.progress.note(phase=phase, thread=worker.name, step=worker.steps, steps=self.config.steps)
        if worker.failures:
            self.record()


def _on_device(device: str) -> Any:
    def use() -> None:
        if device.startswith("cuda"):
            torch.cuda.set_device(device)

    return use
