"""A client of Archipel's admin API.

`Archipel` is the client. Every operation of the API is a module of `archipel_admin.api`, and every request and
answer a class of `archipel_admin.models`; both are generated from the OpenAPI document. `Archipel.call` sends any of
them; the methods beside it are shortcuts for what is done most.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast

import httpx

from .api.buckets import (
    change_grant,
    create_bucket,
    delete_bucket,
    get_bucket,
    list_buckets,
    publish_bucket,
    set_bucket_lifecycle,
    set_bucket_policy,
    set_bucket_quota,
    set_bucket_tags,
    set_versioning,
    set_website,
)
from .api.keys import create_key, delete_key, list_keys
from .api.layout import apply_layout, get_layout, stage_layout
from .api.maintenance import get_operation, list_operations, start_verification
from .api.metrics import get_metrics
from .api.nodes import join_nodes, list_nodes
from .api.status import get_status
from .api.tokens import create_token
from .api.users import (
    change_group,
    change_role,
    change_user,
    create_group,
    create_policy,
    create_user,
    create_user_key,
    list_groups,
    list_policies,
    list_users,
    replace_policy,
)
from .client import AuthenticatedClient, Client
from .models import (
    Apply,
    Assign,
    BucketInfo,
    BucketLifecycle,
    BucketRule,
    BucketSummary,
    BucketTags,
    BucketVersioning,
    ChangeGrant,
    ChangeGroup,
    ChangeRole,
    ChangeUser,
    CreateBucket,
    CreateGroup,
    CreateKey,
    CreatePolicy,
    CreateToken,
    CreateUser,
    Grant,
    GroupInfo,
    Join,
    KeyInfo,
    KeyWithSecret,
    LayoutInfo,
    NameValue,
    NodeInfo,
    NodeStatus,
    OperationInfo,
    OperationKind,
    OperationState,
    PolicyDocument,
    PolicyInfo,
    Problem,
    Quota,
    QuotaUse,
    Redundancy,
    SetWebsite,
    Stage,
    StagedInfo,
    StartVerify,
    TokenWithSecret,
    UserInfo,
    VersioningState,
    WebsiteInfo,
)
from .types import UNSET, Response, Unset

T = TypeVar("T")

__all__ = ["Archipel", "ArchipelError", "Operation"]

# For how long a wait goes on while an operation is stuck that may go on by itself. A layout change tells the trouble of
# a partition until its next try, while others move, and counts their rows in batches, which may be large.
PATIENCE_S = {OperationKind.LIFECYCLE: 30.0, OperationKind.ANTI_ENTROPY: 30.0, OperationKind.LAYOUT_CHANGE: 600.0}


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
        # Failures are raised; an answer without a body is None, as the document says.
        return cast(T, self._answer(operation, path, parameters).parsed)

    def tagged(self, operation: Operation[T], /, *path: str, **parameters: Any) -> tuple[T, str | None]:
        """As `call`, with the `ETag` of the document: `tagged(get_bucket_tags, "photos")`. None if there is none.

        A change with `if_match` of that value is refused with the code `Changed` if the document is another one by
        now.
        """
        answer = self._answer(operation, path, parameters)
        return cast(T, answer.parsed), answer.headers.get("etag")

    def _answer(self, operation: Operation[T], path: tuple[str, ...], parameters: dict[str, Any]) -> Response[Any]:
        try:
            response = operation.sync_detailed(*path, client=self._client, **parameters)
        except (KeyError, ValueError) as error:
            # Such as the page of a proxy that cannot reach the node.
            raise ArchipelError(0, "NotUnderstood", f"the answer is not one of the admin API: {error!r}") from error
        if not 200 <= int(response.status_code) < 300:
            raise ArchipelError.of(response)
        return response

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

    def delete_key(self, key: str) -> None:
        """Deletes an access key."""
        self.call(delete_key, key)

    def delete_bucket(self, name: str) -> None:
        """Deletes a bucket that is empty."""
        self.call(delete_bucket, name)

    def set_quota(self, bucket: str, size: int | None = None, objects: int | None = None) -> QuotaUse:
        """Sets the most that a bucket may hold, in bytes and in objects; None for no limit. Returns what it holds."""
        return self.call(set_bucket_quota, bucket, body=Quota(bytes_=size, objects=objects))

    def set_versioning(self, bucket: str, enabled: bool = True) -> BucketVersioning:
        """Lets a bucket keep older versions of objects, or lets it keep no new ones."""
        state = VersioningState.ENABLED if enabled else VersioningState.SUSPENDED
        return self.call(set_versioning, bucket, body=BucketVersioning(state=state))

    def set_tags(self, bucket: str, tags: Mapping[str, str]) -> BucketTags:
        """Replaces the tags of a bucket."""
        pairs = [NameValue(name=name, value=value) for name, value in tags.items()]
        return self.call(set_bucket_tags, bucket, body=BucketTags(tags=pairs))

    def set_lifecycle(self, bucket: str, *rules: BucketRule) -> BucketLifecycle:
        """Replaces the lifecycle rules of a bucket."""
        return self.call(set_bucket_lifecycle, bucket, body=BucketLifecycle(rules=list(rules)))

    def set_bucket_policy(self, bucket: str, document: Mapping[str, Any]) -> None:
        """Replaces the policy of a bucket, in AWS's language."""
        self.call(set_bucket_policy, bucket, body=PolicyDocument(document=json.dumps(document)))

    def set_website(self, bucket: str, index: str = "index.html", error: str | Unset = UNSET) -> WebsiteInfo:
        """Makes a bucket a website with this index document in each folder, and this page for errors."""
        return self.call(set_website, bucket, body=SetWebsite(index=index, error=error))

    def publish(self, bucket: str) -> None:
        """Lets everybody read the objects of a bucket."""
        self.call(publish_bucket, bucket)

    def users(self) -> list[UserInfo]:
        """All users."""
        return list(self.pages(list_users))

    def create_user(self, name: str, *policies: str) -> UserInfo:
        """Creates a user with these managed policies, by name or ARN."""
        return self.call(create_user, body=CreateUser(name=name, attach=list(policies)))

    def create_user_key(self, user: str) -> KeyWithSecret:
        """Creates an access key of a user and returns it with its secret."""
        return self.call(create_user_key, user)

    def groups(self) -> list[GroupInfo]:
        """All groups."""
        return list(self.pages(list_groups))

    def create_group(self, name: str, *users: str) -> GroupInfo:
        """Creates a group of these users."""
        group = self.call(create_group, body=CreateGroup(name=name))
        return self.call(change_group, name, body=ChangeGroup(add_users=list(users))) if users else group

    def policies(self) -> list[PolicyInfo]:
        """All managed policies: yours, and those that every cluster has."""
        return list(self.pages(list_policies))

    def create_policy(self, name: str, document: Mapping[str, Any], description: str | Unset = UNSET) -> PolicyInfo:
        """Creates a managed policy, in AWS's language: `{"Version": "2012-10-17", "Statement": [...]}`."""
        body = CreatePolicy(name=name, document=json.dumps(document), description=description)
        return self.call(create_policy, body=body)

    def replace_policy(self, name: str, document: Mapping[str, Any]) -> PolicyInfo:
        """Replaces the document of a managed policy. The new one counts at once."""
        return self.call(replace_policy, name, body=PolicyDocument(document=json.dumps(document)))

    def attach(
        self, policy: str, *, user: str | None = None, group: str | None = None, role: str | None = None
    ) -> None:
        """Attaches a managed policy, by name or ARN: `attach("readers", group="family")`."""
        self._change(user, group, role, [policy], [])

    def detach(
        self, policy: str, *, user: str | None = None, group: str | None = None, role: str | None = None
    ) -> None:
        """Detaches a managed policy from a user, a group or a role."""
        self._change(user, group, role, [], [policy])

    def _change(
        self, user: str | None, group: str | None, role: str | None, attach: list[str], detach: list[str]
    ) -> None:
        if sum(holder is not None for holder in (user, group, role)) != 1:
            raise ValueError("name one user, group or role")
        if user is not None:
            self.call(change_user, user, body=ChangeUser(attach=attach, detach=detach))
        elif group is not None:
            self.call(change_group, group, body=ChangeGroup(attach=attach, detach=detach))
        elif role is not None:
            self.call(change_role, role, body=ChangeRole(attach=attach, detach=detach))

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

    def operations(self) -> list[OperationInfo]:
        """Everything that goes on in the background."""
        return list(self.pages(list_operations))

    def operation(self, id: str) -> OperationInfo:
        """A long operation with its progress, such as `scrub:0badcafe`."""
        return self.call(get_operation, id)

    def wait_for_operation(self, id: str, timeout_s: float = 3600, every_s: float = 0.5) -> OperationInfo:
        """Waits until a long operation runs no more. Raises `TimeoutError` if it still does.

        Look at `problems` and `trouble` of what it returns: an operation that cannot go on is `stuck`. Layout changes
        have 10 minutes without progress to go on by themselves, anti-entropy and lifecycle rules 30 seconds, within
        `timeout_s`.
        """
        end = time.monotonic() + timeout_s
        since = 0.0
        before: tuple[object, ...] = ()
        while True:
            operation = self.operation(id)
            is_stuck = operation.state is OperationState.STUCK
            now, far = time.monotonic(), (operation.done, operation.left, operation.rows)
            if not is_stuck or far != before:
                since = now
            before = far
            patience = PATIENCE_S.get(operation.kind, 0.0) if is_stuck else 0.0
            # A node that did not answer once may still do so.
            ended = operation.state not in (OperationState.RUNNING, OperationState.UNKNOWN)
            if ended and (now - since >= patience or now >= end):
                return operation
            if now >= end:
                raise TimeoutError(f"{id} still runs: {operation.done} of {operation.all_ or 'all'} are done")
            time.sleep(every_s)

    def verify(self, deep: bool = False, timeout_s: float = 3600) -> OperationInfo:
        """Verifies the data of all nodes, with `deep` by reading all of it, and waits for the end.

        Raises `RuntimeError` if it did not come to its end, because the node restarted for example. If `trouble` is
        set, a part could not be checked.
        """
        self.call(start_verification, body=StartVerify(deep=deep))
        told = self.wait_for_operation("verification", timeout_s)
        if told.state is not OperationState.DONE:
            raise RuntimeError(f"the verification is {told.state.value}: it did not come to its end")
        return told
