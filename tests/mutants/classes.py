"""Faults of the cores that the simulation does not see, because something else makes them good: the
tests of classes catch them. As in mutants.py: (name, what it breaks, file, text, its place).
"""

CLASSES = [
    ("generations-unheeded", "a worker begins a closure before it knows the shards that it names",
     "worker/worker_closures.c",
     "    if (run->loading || cadre_directory_generations(&self->directory) < closure->generations) {\n",
     "    if (run->loading) {\n"),
    ("push-out-of-touch", "a worker that the coordinator may have given up goes on pushing",
     "worker/worker_values.c",
     "    if (cadre_worker_core_in_touch(self, now_ms)) {\n        cadre_shard_link_pump",
     "    if (shard < self->directory.shard_count) {\n        cadre_shard_link_pump"),
    ("failed-of-anybody", "a failure that another attempt reports counts",
     "coordinator/reports.c",
     "        !is_on(closure, member, failed->attempt)) {\n        return; /* an attempt",
     "        closure->state != CADRE_CLOSURE_IN_FLIGHT) {\n        return; /* an attempt"),
    ("rollback-intact", "a shard that was away during a rollback comes back as it was",
     "coordinator/recovery.c",
     "        if (place->state == CADRE_PLACE_AWAY) {\n            place->holder = 0;\n",
     "        if (place->state == CADRE_PLACE_AWAY) {\n"),
    ("requests-by-the-clock", "what shards have not answered is said again because time has passed",
     "coordinator/shard_requests.c",
     "    request->again = false;\n",
     "    request->again = true;\n"),
    ("push-once", "a push or pull whose answer is lost is not said again",
     "worker/shard_link.c",
     "        if (request->request == id && request->after < probe) {\n",
     "        if (request->request == id && request->after + 100000 < probe) {\n"),
    ("probe-any", "every answer to a PROBE counts, of whenever it is",
     "worker/shard_link.c",
     "        if (request->request == id && request->after < probe) {\n",
     "        if (request->request == id && probe > 0) {\n"),
    ("push-by-the-clock", "what is unanswered goes out again because time has passed",
     "worker/worker_values.c",
     "    pump(self, shard, now_ms);\n    probe(self, shard, now_ms);\n",
     "    pump(self, shard, now_ms);\n    if (now_ms >= link->probe_due_ms) {\n"
     "        cadre_shard_link_repeat(link, now_ms, &self->outbox);\n    }\n"
     "    probe(self, shard, now_ms);\n"),
]
