"""What one check of the doctor says: what it saw, how bad that is, and what can be done."""

from __future__ import annotations

from holdfast.insights.actions import Action
from holdfast.store.contract.health import Finding, Severity

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


class Diagnosis(Finding, frozen=True):
    """A finding with its remedies as data. `advice` says in words what to do; `actions` are the
    verbs that do it. Several actions are alternatives."""

    actions: tuple[Action, ...] = ()

    @classmethod
    def of(cls, finding: Finding) -> Diagnosis:
        """What a store found about itself: its advice is about the server, so no verb helps."""
        return cls(finding.check, finding.severity, finding.saw, finding.advice)
