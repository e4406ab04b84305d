"""A node that sends goals to the action of server.py: one that ends, one that it cancels, and one that the daemon refuses.

client.py
"""

import time

import rclpy
from action_msgs.msg import GoalStatus
from ganglion_interfaces.action import Ask
from rclpy.action import ActionClient


def expect(holds, what):
    if not holds:
        raise SystemExit(f"FAILED: {what}")


class Goal:
    """A goal that was sent, with its feedback so far."""

    def __init__(self, node, client, **asked):
        self.node, self.pieces = node, []
        sent = client.send_goal_async(
            Ask.Goal(**asked), lambda message: self.pieces.append(message.feedback.text)
        )
        rclpy.spin_until_future_complete(node, sent, timeout_sec=30)
        self.handle = sent.result()
        expect(self.handle and self.handle.accepted, "the goal was not accepted")

    def begins(self):
        """Waits for feedback."""
        until = time.monotonic() + 60
        while not self.pieces:
            expect(time.monotonic() < until, "no feedback")
            rclpy.spin_once(self.node, timeout_sec=0.1)

    def end(self):
        """Waits for the result, and returns it with the goal's status."""
        ended = self.handle.get_result_async()
        rclpy.spin_until_future_complete(self.node, ended, timeout_sec=120)
        expect(ended.done(), "no result")
        return ended.result().result, ended.result().status


def main():
    rclpy.init()
    node = rclpy.create_node("asker")
    client = ActionClient(node, Ask, "ask")
    expect(client.wait_for_server(timeout_sec=30), "no action server")

    goal = Goal(node, client, prompt="Name a colour.", max_tokens=20)
    result, status = goal.end()
    print(repr(result.text), result.finish_reason, result.completion_tokens, flush=True)
    expect(status == GoalStatus.STATUS_SUCCEEDED, f"status {status}")
    expect(result.finish_reason in ("stop", "length"), result.finish_reason)
    expect("".join(goal.pieces) == result.text, f"{goal.pieces} is not {result.text!r}")

    goal = Goal(node, client, prompt="Count to a thousand.", max_tokens=700)
    goal.begins()
    goal.handle.cancel_goal_async()
    result, status = goal.end()
    print("cancelled after", result.completion_tokens, "tokens", flush=True)
    expect(status == GoalStatus.STATUS_CANCELED, f"status {status}")
    expect(result.finish_reason == "cancelled" and result.completion_tokens < 700, f"{result}")

    result, status = Goal(node, client, prompt="Hello", priority="urgent").end()
    print("refused:", result.text)
    expect(status == GoalStatus.STATUS_ABORTED and "urgent" in result.text, f"{result}")


main()
