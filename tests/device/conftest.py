"""Tests of walks on a device: on a CUDA device, or on the CPU where Triton interprets its kernels."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETED or torch.cuda.is_available() else ["test_*.py"]


@pytest.fixture(scope="session")
def device():
    return "cpu" if INTERPRETED else "cuda"


@pytest.fixture(autouse=INTERPRETED)
def larger_programs(monkeypatch):
    """What the interpreter needs grows with the number of programs, and hardly with their size."""
    monkeypatch.setattr("walkernel.engines._device_walks.BLOCK", 512)
    monkeypatch.setattr("walkernel.engines._device_heads.BLOCK", 4096)
    monkeypatch.setattr("walkernel.engines._device_heads.ROWS", 256)
    monkeypatch.setattr("walkernel.engines._device_heads.STARTS", 64)


@pytest.fixture
def groups_on_device(monkeypatch):
    """Groups of walks are walked on the device even if they are few."""
    monkeypatch.setattr("walkernel.engines._cuda.FEW_DEPOSITS", 0)
