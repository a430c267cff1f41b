"""Routed clients: their requests go by route, and everything else about them is the client's own."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient

from subgroup_offset.rollout.routing import route_client, routed


class Client(LLMServerClient):
    """Answers with the request id that it was given."""

    async def generate(self, request_id, **kwargs):
        return request_id, kwargs


def ways(client):
    """A routed client, and what becomes of it when it is copied, pickled or routed again."""
    once = route_client(client)
    return [
        once,
        route_client(once),
        copy.copy(once),
        copy.deepcopy(once),
        pickle.loads(pickle.dumps(once)),
        copy.copy(pickle.loads(pickle.dumps(once))),
    ]


@pytest.fixture
def client():
    client = Client(OmegaConf.create({"a": 1}))
    client.tokenizer = "set later"
    return client


def test_requests_inside_a_route_carry_it(client):
    for one in ways(client):

        async def scene(one=one):
            outside = await one.generate("mine", prompt_ids=[1])
            with routed("prompt-7"):
                inside = await one.generate("mine", prompt_ids=[1])
                with routed(None):
                    left_alone = await one.generate(request_id="mine", prompt_ids=[1])
            return outside, inside, left_alone

        kwargs = {"prompt_ids": [1]}
        assert asyncio.run(scene()) == (("mine", kwargs), ("prompt-7", kwargs), ("mine", kwargs))


def test_tasks_do_not_see_each_others_route(client):
    one = route_client(client)

    async def ask(key):
        with routed(key):
            await asyncio.sleep(0)
            return (await one.generate("x"))[0]

    async def scene():
        return await asyncio.gather(*(ask(f"p{i}") for i in range(20)))

    assert asyncio.run(scene()) == [f"p{i}" for i in range(20)]


@pytest.mark.parametrize("kind", [LLMServerClient, FullyAsyncLLMServerClient])
def test_it_is_a_client_of_its_kind_with_all_it_has(kind):
    client = kind(OmegaConf.create({"a": 1}))
    client.tokenizer = "set later"
    for one in ways(client):
        assert isinstance(one, kind) and one.tokenizer == "set later" and one.config == client.config
    assert type(client) is kind


def test_a_field_of_the_clients_type_takes_it(client):
    """As the chat models of LangGraph's agent loops have one."""

    class ChatModel(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        client: LLMServerClient

    routed_client = route_client(client)
    assert ChatModel(client=routed_client).client is routed_client
