"""The pipeline of a request: the stages around the handler of its API, for the plugins of wire protocols."""

from tidelog.kernel.request.authentication import ListenerAuthentication, SaslSession, SessionState
from tidelog.kernel.request.authorization import Authorization
from tidelog.kernel.request.pipeline import MessageForm, StagedHandler

__all__ = [
    "Authorization",
    "ListenerAuthentication",
    "MessageForm",
    "SaslSession",
    "SessionState",
    "StagedHandler",
]
