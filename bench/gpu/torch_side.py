#!/usr/bin/env python3
"""torch_side.py WAY FOLDER [--device D] [--math M] [--threads N] - the model in FOLDER (written by
cadre-bench-gpu-resident --dump) trained by PyTorch in one WAY: eager, compiled or graphs. Serves the
commands of runner.h on stdin. Exit status 77 when PyTorch, or this way of it, is not there.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as functional
except ImportError as error:
    print(f"skipped: no PyTorch here ({error})", file=sys.stderr)
    sys.exit(77)

WARM_STEPS = 3
TABLES = 26


def mlp(variables, arguments):
    x, target = arguments
    for layer in range(0, 6, 2):
        x = torch.relu(torch.addmm(variables[layer + 1], x, variables[layer]))
    y = torch.addmm(variables[7], x, variables[6]).reshape(-1)
    return functional.mse_loss(y, target)


def dlrm(variables, arguments):
    x, target, indexes = arguments[0], arguments[1], arguments[2:]
    vectors = [functional.embedding(i, table) for i, table in zip(indexes, variables[:TABLES])]
    dense = variables[TABLES:]

    def layer(value, index):
        return torch.addmm(dense[2 * index + 1], value, dense[2 * index])

    for index in range(3):
        x = torch.relu(layer(x, index))
    stacked = torch.stack([x] + vectors, 1)
    products = torch.bmm(stacked, stacked.transpose(1, 2))
    rows, columns = torch.tril_indices(TABLES + 1, TABLES + 1, -1, device=x.device)
    y = torch.cat([x, products[:, rows, columns]], 1)
    for index in (3, 4):
        y = torch.relu(layer(y, index))
    return functional.binary_cross_entropy_with_logits(layer(y, 5).reshape(-1), target)


class Model:
    def __init__(self, folder, device):
        with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
            about = json.load(file)
        self.folder, self.device = folder, torch.device(device)
        self.rate, self.loss_of = about["rate"], {"mlp": mlp, "dlrm": dlrm}[about["model"]]
        self.variables = [self.read(f"v{i}", "f32", shape).requires_grad_()
                          for i, shape in enumerate(about["variables"])]
        self.shapes = about["variables"]
        self.batches = [[self.read(f"b{b}_{i}", a["dtype"], a["shape"])
                         for i, a in enumerate(about["arguments"])]
                        for b in range(about["batches"])]
        self.optimizer = torch.optim.SGD(self.variables, lr=self.rate)
        self.steps = 0

    def read(self, name, dtype, shape):
        dtype = torch.int32 if dtype == "i32" else torch.float32
        path = os.path.join(self.folder, name)
        return torch.from_file(path, size=int(torch.tensor(shape).prod()), dtype=dtype).reshape(
            shape).clone().to(self.device)

    def reset(self):
        self.steps = 0
        with torch.no_grad():
            for i, variable in enumerate(self.variables):
                variable.copy_(self.read(f"v{i}", "f32", self.shapes[i]))

    def batch(self):
        return self.batches[self.steps % len(self.batches)]


class Eager:
    def __init__(self, model):
        self.model, self.loss_of = model, model.loss_of

    def step(self):
        model = self.model
        model.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(model.variables, model.batch())
        loss.backward()
        model.optimizer.step()
        model.steps += 1
        return loss.detach()


class Compiled(Eager):
    def __init__(self, model):
        super().__init__(model)
        self.loss_of = torch.compile(model.loss_of)


class Graphs:
    """One CUDA graph of a whole step, whose batch is copied to the same place each time."""

    def __init__(self, model):
        if model.device.type != "cuda":
            print("skipped: there are CUDA graphs on a GPU only", file=sys.stderr)
            sys.exit(77)
        self.model, self.place = model, [x.clone() for x in model.batches[0]]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_STEPS):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        model.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.run()
        model.reset()

    def run(self):
        self.model.optimizer.zero_grad(set_to_none=True)
        loss = self.model.loss_of(self.model.variables, self.place)
        loss.backward()
        self.model.optimizer.step()
        return loss.detach()

    def step(self):
        for place, value in zip(self.place, self.model.batch()):
            place.copy_(value)
        self.graph.replay()
        self.model.steps += 1
        return self.loss


def serve(way, model):
    for line in sys.stdin:
        verb, count = line.split()[0], int(line.split()[1])
        if verb == "losses":
            model.reset()
            answer = {"losses": [way.step().item() for _ in range(count)]}
        else:
            begin, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                way.step().item()  # each loss comes to the host, as in the other ways
            answer = {"steps": count, "seconds": time.perf_counter() - begin,
                      "cpu_seconds": time.process_time() - cpu}
        print(json.dumps(answer), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("eager", "compiled", "graphs"))
    parser.add_argument("folder")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--math", default="f32")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision({"f32": "highest", "tf32": "high", "bf16": "medium"}[options.math])
    model = Model(options.folder, options.device)
    way = {"eager": Eager, "compiled": Compiled, "graphs": Graphs}[options.way](model)
    for _ in range(WARM_STEPS):
        way.step()
    model.reset()
    print(json.dumps({"ready": f"torch {torch.__version__} {options.way}"}), flush=True)
    serve(way, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
