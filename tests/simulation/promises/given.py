"""Promise 5 without rounds: an answer gives only tasks that the leader log names for its member."""

from cooperator.reconciliation import Answer, ReconciledMember, Report
from cooperator.reconciliation.records import Epochs, RecordKey, RecordKind
from tests.simulation.promises.base import Promise

_GROUP = RecordKey(RecordKind.GROUP)


class RecordsBeforeAnswers(Promise):
    def check(self) -> None:
        simulation = self.simulation
        if simulation.report_answers:
            answers, simulation.report_answers = simulation.report_answers, []
            for report, answer in answers:
                self._sent(report, answer)

    def _sent(self, report: Report, answer: Answer) -> None:
        records = self.simulation.group_records
        epochs = records.get(_GROUP)
        if not isinstance(epochs, Epochs) or epochs.term != report.term:
            # Another leader has written since: the member obeys none of an earlier term after its next round.
            return
        member = records.get(RecordKey(RecordKind.MEMBER, report.identity))
        is_its = isinstance(member, ReconciledMember) and member.incarnation == report.incarnation
        known = member.current.assigned if isinstance(member, ReconciledMember) and is_its else {}
        missing = answer.assigned.keys() - known.keys()
        if missing:
            raise self.broken(
                f"{report.identity} is given {', '.join(map(str, sorted(missing)))} in answer "
                f"{answer.group_epoch}, and the leader log does not say so"
            )
