"""A client of Archipel's admin API.

`Archipel` is the client. Every operation of the API is a module of `archipel_admin.api`, and every request and
answer a class of `archipel_admin.models`; both are generated from the OpenAPI document. `Archipel.call` sends any of
them; the methods beside it are shortcuts for what is done most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

import httpx

from .api.buckets import change_grant, create_bucket, get_bucket, list_buckets
from .api.keys import create_key, list_keys
from .api.layout import apply_layout, get_layout, stage_layout
from .api.metrics import get_metrics
from .api.nodes import join_nodes, list_nodes
from .api.status import get_status
from .api.tokens import create_token
from .client import AuthenticatedClient, Client
from .models import (
    Apply,
    Assign,
    BucketInfo,
    BucketSummary,
    ChangeGrant,
    CreateBucket,
    CreateKey,
    CreateToken,
    Grant,
    Join,
    KeyInfo,
    KeyWithSecret,
    LayoutInfo,
    NodeInfo,
    NodeStatus,
    Problem,
    Redundancy,
    Stage,
    StagedInfo,
    TokenWithSecret,
)
from .types import UNSET, Response, Unset

T = TypeVar("T")

__all__ = ["Archipel", "ArchipelError", "Operation"]


class ArchipelError(Exception):
    """The answer was not a success. Compare `code`, which is stable; `detail` is for people."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(f"{detail} ({code})")
        self.status, self.code, self.detail = status, code, detail

    @staticmethod
    def of(response: Response[Any]) -> "ArchipelError":
        """The error in an answer; also if a proxy sent it."""
        status, problem = int(response.status_code), response.parsed
        if isinstance(problem, Problem):
            return ArchipelError(status, problem.code, problem.detail)
        return ArchipelError(status, "Unknown", response.content[:500].decode(errors="replace"))


class Operation(Protocol[T]):
    """A module of `archipel_admin.api`, whose answer is a `T`."""

    @property
    def sync_detailed(self) -> Callable[..., Response[T | Problem]]: ...


class Archipel:
    """A client of a node's admin API, over TCP with a token or over the node's local socket.

    Use it in a `with` statement: it keeps connections open until the end.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:3903",
        token: str | None = None,
        *,
        socket: str | None = None,
        timeout_s: float = 60,
    ):
        timeout = httpx.Timeout(timeout_s)
        self._client: AuthenticatedClient | Client
        if socket is not None:
            transport = httpx.HTTPTransport(uds=str(socket))
            arguments: dict[str, Any] = {"transport": transport}
            self._client = Client(base_url="http://localhost", timeout=timeout, httpx_args=arguments)
        elif token is not None:
            self._client = AuthenticatedClient(base_url=url, token=token, timeout=timeout)
        else:
            raise ValueError("give a token, or the socket of a node on this machine")

    def __enter__(self) -> "Archipel":
        self._client.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._client.__exit__(*error)

    def call(self, operation: Operation[T], /, *path: str, **parameters: Any) -> T:
        """Sends any operation, such as `call(delete_bucket, "photos")`. Returns what the document says.

        Raises `ArchipelError` if the answer is not a success.
        """
        try:
            response = operation.sync_detailed(*path, client=self._client, **parameters)
        except (KeyError, ValueError) as error:
            # Such as the page of a proxy that cannot reach the node.
            raise ArchipelError(0, "NotUnderstood", f"the answer is not one of the admin API: {error!r}") from error
        if not 200 <= int(response.status_code) < 300:
            raise ArchipelError.of(response)
        # What is not a success was raised; an answer without a body is None, as the document says.
        return cast(T, response.parsed)

    def pages(self, operation: Operation[Any], /, *path: str, **filters: Any) -> Iterator[Any]:
        """All items of a list, such as `pages(list_buckets, prefix="logs-")`, page by page."""
        after: str | Unset = UNSET
        while True:
            page = self.call(operation, *path, after=after, **filters)
            yield from page.items
            if isinstance(page.next_, Unset) or page.next_ is None:
                return
            after = page.next_

    def status(self) -> NodeStatus:
        """The node that is asked."""
        return self.call(get_status)

    def metrics(self) -> str:
        """The metrics of the node that is asked, as OpenMetrics text."""
        return self.call(get_metrics)

    def nodes(self) -> list[NodeInfo]:
        """All known nodes."""
        return list(self.pages(list_nodes))

    def join(self, *addresses: str) -> None:
        """Joins the cluster of the nodes at these addresses, `host:port` each."""
        self.call(join_nodes, body=Join(addresses=list(addresses)))

    def buckets(self, prefix: str | Unset = UNSET) -> list[BucketSummary]:
        """All buckets whose names begin so."""
        return list(self.pages(list_buckets, prefix=prefix))

    def bucket(self, name: str) -> BucketInfo:
        """A bucket."""
        return self.call(get_bucket, name)

    def create_bucket(self, name: str, owner: str | Unset = UNSET) -> BucketInfo:
        """Creates a bucket. The access key `owner` gets all permissions."""
        return self.call(create_bucket, body=CreateBucket(name=name, owner=owner))

    def keys(self) -> list[KeyInfo]:
        """All access keys, without their secrets."""
        return list(self.pages(list_keys))

    def create_key(self, name: str, create_bucket: bool = False) -> KeyWithSecret:
        """Creates an access key and returns it with its secret."""
        return self.call(create_key, body=CreateKey(name=name, create_bucket=create_bucket))

    def grant(self, bucket: str, key: str, **permissions: bool) -> Grant:
        """Changes what an access key may do with a bucket: `grant("photos", "AK...", read=True, write=False)`."""
        return self.call(change_grant, bucket, key, body=ChangeGrant(**permissions))

    def create_token(self, name: str, *scopes: str, valid_seconds: int | Unset = UNSET) -> TokenWithSecret:
        """Creates a token with these scopes, such as `buckets/photos:write`."""
        body = CreateToken(name=name, scopes=list(scopes), valid_seconds=valid_seconds)
        return self.call(create_token, body=body)

    def layout(self) -> LayoutInfo:
        """The layout, what is staged, and the progress of a change."""
        return self.call(get_layout)

    def stage(
        self, assign: list[Assign] | None = None, remove: list[str] | None = None, redundancy: Redundancy | None = None
    ) -> LayoutInfo:
        """Stages changes of the layout. Nothing moves before `apply`; `staged.plan` says what would."""
        body = Stage(assign=assign or UNSET, remove=remove or UNSET, redundancy=redundancy or UNSET)
        return self.call(stage_layout, body=body)

    def apply(self, wait_s: float | None = None) -> LayoutInfo:
        """Makes what is staged the layout, exactly as it is now. Waits for the data to move if asked."""
        staged = self.layout().staged
        if not isinstance(staged, StagedInfo):
            raise ValueError("nothing is staged")
        layout = self.call(apply_layout, body=Apply(version=staged.version, revision=staged.revision))
        return layout if wait_s is None else self.wait_for_layout(wait_s)

    def wait_for_layout(self, timeout_s: float = 3600, every_s: float = 0.5) -> LayoutInfo:
        """Waits until no data moves to a newer layout version. Raises `TimeoutError` if it still does."""
        end = time.monotonic() + timeout_s
        while True:
            layout = self.layout()
            if layout.progress is None or isinstance(layout.progress, Unset):
                return layout
            if time.monotonic() >= end:
                moved = f"{layout.progress.done} of {layout.progress.partitions} partitions"
                raise TimeoutError(f"the layout still changes: {moved} are done")
            time.sleep(every_s)
