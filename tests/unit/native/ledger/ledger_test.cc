// Asks the ledger by hand; exits with 0 if all holds.
#include "ledger_test.h"

using namespace tfwave;

namespace {

void SeveralHaveTheSmallerRoom() {
  Desk desk({100, 90});
  desk.Add("a", 5, {0, 0}, {40});
  desk.Add("b", 5, {0, 0}, {40});
  desk.Add("c", 0, {0, 0}, {41});
  CHECK(desk.Start("a") == 0 && desk.Start("b") == 0);  // 45 + 45
  desk.End("a");
  CHECK(desk.Start("c") != 0);  // 5 + 45 + 41
  CHECK(desk.Entry("b").group == 0 && desk.Entry("b").held == 45 && desk.Entry("a").group == -1);
  desk.End("b");
  CHECK(desk.Said() == Said{"c 0 go"});
}

void OneAloneHasTheWholeRoom() {
  Desk desk({100, 50});
  desk.Add("a", 10, {0, 30, 0}, {30, 50});
  desk.Add("b", 10, {0, 0}, {10});
  CHECK(desk.Start("a") == 0 && desk.Ask("a", 1) == 0);  // 10 + 80 + 10
  CHECK(desk.Entry("a").held == 90 && desk.Start("b") != 0);
  desk.End("a");
  CHECK(desk.Said() == Said{"b 0 go"} && desk.Entry("a").held == 10);
}

// Both would fit now, but neither could go on.
void NoneStartsThatCouldNotFinishBesideTheOthers() {
  const std::vector<int64_t> held = {0, 40, 0}, transients = {40, 90};
  for (const int64_t room : {169, 170}) {
    Desk desk({room, room});
    desk.Add("a", 0, held, transients);
    desk.Add("b", 0, held, transients);
    CHECK(desk.Start("a") == 0);
    CHECK((desk.Start("b") == 0) == (room == 170));
  }
}

void WhatHasToFinishFirstIsFound() {
  // Room for "small" only; "large" after what that frees; "growing" last.
  const BegunStep small = {50, 60, 0}, large = {20, 70, 0}, growing = {0, 50, 50};
  CHECK(CanFinish({growing, large, small}, 20, 100));
  CHECK(!CanFinish({growing, large, small}, 21, 100));
  CHECK(CanFinish({}, 100, 100) && !CanFinish({}, 101, 100));
}

void WithinAStepNothingIsBehindAnother() {
  Desk desk({100, 100});
  desk.Add("a", 0, {0, 30, 0}, {30, 60});
  desk.Add("b", 0, {0, 10, 0}, {10, 5});
  desk.Add("c", 0, {0, 0}, {71});
  CHECK(desk.Start("a") == 0 && desk.Start("b") == 0);
  CHECK(desk.Start("c") != 0);
  CHECK(desk.Ask("b", 1) == 0);
  desk.End("b");
  CHECK(desk.Said().empty() && desk.Ask("a", 1) == 0);
  desk.End("a");
  CHECK(desk.Said() == Said{"c 0 go"});
}

void ANewStepStaysBehindAnOlderRequest() {
  Desk desk({100, 100});
  desk.Add("loops", 0, {0, 0}, {60});
  desk.Add("waits", 0, {0, 0}, {50});
  desk.Add("fits", 0, {0, 0}, {10});
  CHECK(desk.Start("loops") == 0 && desk.Start("waits") != 0);
  CHECK(desk.Start("fits") != 0);  // though there is room
  desk.End("loops");
  CHECK((desk.Said() == Said{"waits 0 go", "fits 0 go"}));
  CHECK(desk.Start("loops") != 0);
  desk.End("waits");
  CHECK(desk.Said() == Said{"loops 0 go"});
}

void AHigherPriorityIsAskedFirst() {
  Desk desk({100, 100});
  desk.Add("runs", 0, {0, 0}, {100});
  desk.Add("low", 0, {0, 0}, {60});
  desk.Add("high", 0, {0, 0}, {60}, 1);
  desk.Add("low too", 0, {0, 0}, {60});
  CHECK(desk.Start("runs") == 0 && desk.Start("low") != 0 && desk.Start("low too") != 0 && desk.Start("high") != 0);
  desk.End("runs");
  CHECK(desk.Said() == Said{"high 0 go"});
  desk.End("high");
  CHECK(desk.Said() == Said{"low 0 go"});
}

void OnlyAHigherPriorityOvertakesAStepThatHasBegun() {
  Desk desk({100, 100});
  desk.Add("low", 0, {0, 20, 0}, {20, 60});
  desk.Add("runs", 0, {0, 0}, {50});
  desk.Add("equal", 0, {0, 0}, {10});
  desk.Add("high", 0, {0, 0}, {10}, 1);
  CHECK(desk.Start("low") == 0 && desk.Start("runs") == 0);
  CHECK(desk.Ask("low", 1) != 0 && desk.Start("equal") != 0 && desk.Start("high") == 0);
  desk.End("runs");
  CHECK((desk.Said() == Said{"low 1 go", "equal 0 go"}));
}

void OfJobsThatTakeTurnsOneRuns() {
  Desk desk({100, 100});
  for (const char* name : {"a", "b"}) desk.Add(name, 0, {0, 5, 0}, {10, 10});
  desk.Add("free", 0, {0, 0}, {10});
  desk.ledger.TakeTurns("b", "a");
  CHECK(desk.Start("a") == 0 && desk.Start("free") == 0 && desk.Start("b") != 0);
  desk.End("free");
  CHECK(desk.Said().empty() && desk.Ask("a", 1) != 0);  // the other's turn
  CHECK(desk.Said() == Said{"b 0 go"});
  desk.End("b");
  CHECK(desk.Said() == Said{"a 1 go"} && desk.Start("b") != 0);
}

void AHigherPriorityTakesNoTurns() {
  Desk desk({100, 100});
  desk.Add("low", 0, {0, 10, 0}, {10, 10});
  desk.Add("high", 0, {0, 0}, {10}, 1);
  desk.Add("large", 0, {0, 0}, {95}, 1);
  for (const char* name : {"high", "large"}) desk.ledger.TakeTurns("low", name);
  CHECK(desk.Start("low") == 0 && desk.Start("high") == 0);
  CHECK(desk.Ask("low", 1) != 0);  // beside "high" it would slow that
  desk.End("high");
  CHECK(desk.Said() == Said{"low 1 go"});
  CHECK(desk.Start("large") != 0);  // without room
}

void ALowPriorityIsNotKeptForEver() {
  Desk desk({100, 100}, 2);
  desk.Add("runs", 0, {0, 0}, {100});
  desk.Add("low", 0, {0, 0}, {60});
  desk.Add("high", 0, {0, 0}, {60}, 1);
  CHECK(desk.Start("runs") == 0 && desk.Start("low") != 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  desk.Start("high");
  desk.End("runs");
  CHECK(desk.Said()[0] == "low 0 go");
}

void ADeadlineLetsThroughAndSaysWho() {
  Desk desk({100, 100}, 0.05);
  desk.Add("a", 10, {0, 50, 0}, {70, 5});
  desk.Add("b", 20, {0, 0}, {60});
  CHECK(desk.Start("a") == 0 && desk.Start("b") != 0);
  Said said;
  WaitUntil([&] { return !said.empty() || !(said = desk.Said()).empty(); });
  CHECK(said == Said{"b 0 go"} && desk.ledger.counters().released == 1);
  const std::string message = desk.ledger.messages().at(0);
  CHECK(message.find("group 0 of the job 'b' waited 0.") == 0);
  CHECK(message.find("for 60 bytes and was let through: 'a' holds 80 bytes and runs group 0, "
                     "'b' holds 20 bytes between steps; the pool has 100 bytes") != std::string::npos);
  const LedgerCounters counted = desk.ledger.counters();
  CHECK(counted.admitted == 1 && counted.waited == 1 && counted.waited_nanos >= 50000000);
  CHECK(counted.longest_nanos == counted.waited_nanos);
  CHECK(desk.Entry("b").group == 0 && desk.Entry("b").held == 80);
}

void TheLastMessagesAreKept() {
  Desk desk({10, 10}, 1e-6);
  desk.Add("a", 0, {0, 0}, {10});
  desk.Add("b", 0, {0, 0}, {10});
  CHECK(desk.Start("a") == 0);
  for (size_t i = 1; i <= Ledger::kMessages + 1; ++i) {
    CHECK(desk.Start("b") != 0);
    WaitUntil([&] { return desk.ledger.counters().released == static_cast<int64_t>(i); });
    desk.End("b");
  }
  CHECK(desk.ledger.messages().size() == Ledger::kMessages);
}

void ACancelledRequestIsInNobodysWay() {
  Desk desk({100, 100});
  desk.Add("a", 0, {0, 0}, {60});
  desk.Add("b", 0, {0, 0}, {50});
  desk.Add("c", 0, {0, 0}, {40});
  CHECK(desk.Start("a") == 0);
  const int64_t request = desk.Start("b");
  CHECK(request != 0 && desk.Start("c") != 0);
  desk.ledger.Cancel(request);
  CHECK((desk.Said() == Said{"b 0 cancelled", "c 0 go"}));
  desk.ledger.Cancel(request);
  desk.End("b");
  CHECK(desk.Said().empty() && desk.Start("b") != 0);
}

void TheEndOfAStepCancelsAndFrees() {
  Desk desk({100, 100});
  desk.Add("a", 0, {0, 50, 0}, {50, 40});
  desk.Add("b", 0, {0, 10, 0}, {10, 40});
  desk.Add("c", 0, {0, 0}, {90});
  CHECK(desk.Start("a") == 0 && desk.Start("b") == 0);
  CHECK(desk.Ask("b", 1) == 0 && desk.Ask("a", 1) != 0 && desk.Start("c") != 0);
  desk.End("a");
  CHECK(desk.Said() == Said{"a 1 cancelled"} && desk.Entry("a").held == 0);
  desk.End("b");
  CHECK(desk.Said() == Said{"c 0 go"});
  std::string error;
  const int64_t step = desk.ledger.BeginStep("a", &error);
  desk.ledger.EndStep("a", step - 1);  // of another
  CHECK(desk.ledger.BeginStep("a", &error) == 0 && error.find("'a' runs already") != std::string::npos);
}

void ARemovedJobLetsGo() {
  Desk desk({100, 100});
  desk.Add("a", 20, {0, 0}, {60});
  desk.Add("b", 10, {0, 0}, {60});
  desk.Add("c", 0, {0, 0}, {60});
  CHECK(desk.Start("a") == 0 && desk.Start("b") != 0 && desk.Start("c") != 0);
  desk.ledger.Remove("b");
  CHECK(desk.Said() == Said{"b 0 go"} && !desk.Entry("b").known);
  CHECK(desk.Ask("b", 0) == 0);
  desk.ledger.Remove("a");
  desk.ledger.Remove("a");
  CHECK(desk.Said() == Said{"c 0 go"});
  CHECK(desk.Add("a", 0, {0, 0}, {1}));
}

void AJobJoinsWhenTheBegunStepsLeaveRoom() {
  Desk desk({100, 100});
  for (const char* name : {"a", "d"}) desk.Add(name, 0, {0, 20, 0}, {20, 40});
  CHECK(desk.Start("a") == 0 && desk.Start("d") == 0);
  CHECK(!desk.Add("b", 21, {0, 0}, {10}));
  CHECK(desk.Entry("b").known && desk.Entry("b").held == 0);
  std::string error;
  CHECK(desk.ledger.BeginStep("b", &error) == 0 && error == "the ledger has no job 'b': add it first");
  desk.End("a");
  CHECK(desk.Said() == Said{"b joins go"} && desk.Entry("b").held == 21);
  CHECK(desk.Add("c", 5, {0, 0}, {10}));
}

void JobsThatNeverFitAreRefused() {
  Desk desk({100, 100});
  desk.Add("a", 30, {0, 0}, {50});
  std::string error;
  const auto add = [&](const std::string& name, const Footprint& footprint) {
    error.clear();
    return desk.ledger.Add(name, footprint, 0, nullptr, &error);
  };
  CHECK(add("a", Footprint(0, {0, 0}, {1})) == 0 && error.find("a job 'a' already") != std::string::npos);
  add("b", Footprint(21, {0, 0}, {1}));  // "a" could not run beside it
  CHECK(error.find("hold 51 bytes, and one of them alone takes 50 more in its step, of 100") != std::string::npos);
  add("b", Footprint(0, {0, 0}, {71}));
  CHECK(!error.empty() && !desk.Entry("b").known);
  add("b", Footprint(20, {0, 0}, {50}));
  CHECK(error.empty());
}

void WrongQuestionsAreRefused() {
  Desk desk({100, 100});
  desk.Add("a", 0, {0, 0, 0}, {60, 60});
  desk.Add("b", 0, {0, 0}, {60});
  std::string error;
  const auto ask = [&](int group) {
    error.clear();
    return desk.ledger.Ask("a", group, nullptr, &error);
  };
  CHECK(ask(0) == 0 && error.find("outside of the job's steps") != std::string::npos);
  CHECK(desk.Start("b") == 0 && desk.Start("a") != 0);
  CHECK(ask(1) == 0 && error.find("beside another") != std::string::npos);
  CHECK(ask(2) == 0 && error.find("group 2 of the job 'a': the ledger knows 2 groups") == 0);
}

void LessThanAtTheStartNeverCounts() {
  Desk desk({100, 100});
  desk.Add("a", 50, {0, -40, 0}, {10, 20});
  desk.Add("b", 0, {0, 0}, {50});
  CHECK(desk.Start("a") == 0 && desk.Ask("a", 1) == 0 && desk.Entry("a").held == 50);
  CHECK(desk.Start("b") == 0);
}

void OneLedgerIsOpenAtATime() {
  Desk desk({100, 100});
  std::string error;
  desk.ledger.Open({1, 1}, 1, &error);
  CHECK(error.find("has a ledger already") != std::string::npos);
  desk.Add("a", 0, {0, 0}, {60});
  desk.Add("b", 0, {0, 0}, {60});
  CHECK(desk.Start("a") == 0 && desk.Start("b") != 0);
  desk.ledger.Close();
  CHECK(desk.Said() == Said{"b 0 go"} && desk.Ask("b", 0) == 0);
  error.clear();
  desk.ledger.Open({1, 1}, 1, &error);
  CHECK(error.empty() && desk.ledger.counters().admitted == 0 && desk.ledger.counters().waited == 0);
  CHECK(desk.Entry("b").waited_nanos == 0);
}

// Also once it is removed, and if it comes back.
void WhatAJobWaitedIsKnown() {
  Desk desk({100, 100});
  for (const char* name : {"a", "b", "c"}) desk.Add(name, 0, {0, 0}, {60});
  CHECK(desk.Start("a") == 0 && desk.Start("b") != 0);
  CHECK(desk.Entry("b").waited_nanos == 0);  // it is not answered yet
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  desk.End("a");
  const int64_t once = desk.Entry("b").waited_nanos;
  CHECK(once >= 2000000 && desk.Start("c") != 0);
  desk.ledger.Remove("b");
  CHECK(!desk.Entry("b").known && desk.Entry("b").waited_nanos == once);
  CHECK(desk.Entry("a").waited_nanos == 0 && desk.Entry("unknown").waited_nanos == 0);
  desk.Add("b", 0, {0, 0}, {60});
  CHECK(desk.Start("b") != 0);
  desk.End("c");
  const LedgerCounters counted = desk.ledger.counters();
  CHECK(desk.Entry("b").waited_nanos > once && counted.longest_nanos >= once);
  CHECK(counted.waited_nanos == desk.Entry("b").waited_nanos + desk.Entry("c").waited_nanos);
}

void CallbacksMayCallBack() {
  Ledger ledger;
  std::string error;
  ledger.Open({10, 10}, 1e6, &error);
  for (const char* name : {"a", "b"}) ledger.Add(name, Footprint(0, {0, 0, 0}, {10, 10}), 0, nullptr, &error);
  const int64_t a = ledger.BeginStep("a", &error), b = ledger.BeginStep("b", &error);
  CHECK(ledger.Ask("a", 0, nullptr, &error) == 0);
  bool ended = false;
  const auto go_on = [&](Verdict) {
    CHECK(ledger.Ask("b", 1, nullptr, &error) == 0);
    ledger.EndStep("b", b);
    ended = true;
  };
  CHECK(ledger.Ask("b", 0, go_on, &error) != 0);
  ledger.EndStep("a", a);
  CHECK(ended && error.empty());
}

}  // namespace

int main() {
  SeveralHaveTheSmallerRoom();
  OneAloneHasTheWholeRoom();
  NoneStartsThatCouldNotFinishBesideTheOthers();
  WhatHasToFinishFirstIsFound();
  WithinAStepNothingIsBehindAnother();
  ANewStepStaysBehindAnOlderRequest();
  AHigherPriorityIsAskedFirst();
  OnlyAHigherPriorityOvertakesAStepThatHasBegun();
  OfJobsThatTakeTurnsOneRuns();
  AHigherPriorityTakesNoTurns();
  ALowPriorityIsNotKeptForEver();
  ADeadlineLetsThroughAndSaysWho();
  TheLastMessagesAreKept();
  ACancelledRequestIsInNobodysWay();
  TheEndOfAStepCancelsAndFrees();
  ARemovedJobLetsGo();
  AJobJoinsWhenTheBegunStepsLeaveRoom();
  JobsThatNeverFitAreRefused();
  WrongQuestionsAreRefused();
  LessThanAtTheStartNeverCounts();
  OneLedgerIsOpenAtATime();
  WhatAJobWaitedIsKnown();
  CallbacksMayCallBack();
  TestSoak();
  std::puts("all hold");
}
