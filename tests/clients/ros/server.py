"""A ROS 2 node with an action: a goal is a question, feedback has the pieces of the answer, and a cancelled goal ends the answer
in the daemon. It needs rclpy, dbus-fast, and the interfaces of ganglion_interfaces.

server.py
"""

import asyncio
import sys
import threading
from pathlib import Path

import rclpy
from dbus_fast import DBusError
from ganglion_interfaces.action import Ask
from rclpy.action import ActionServer, CancelResponse
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node

sys.path.append(str(Path(__file__).parents[1] / "python"))
from ganglion import Ganglion, fields, message


class Asker(Node):
    """The node. ROS calls it in threads of its own; everything on the bus happens in one asyncio loop."""

    def __init__(self):
        super().__init__("ganglion")
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.ganglion = self.on_bus(Ganglion().connect())
        self.answers = {}
        self.server = ActionServer(
            self, Ask, "ask", execute_callback=self.execute, cancel_callback=self.cancel
        )

    def on_bus(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def execute(self, goal):
        """Answers one goal. Several run at once; the daemon decides their order."""
        try:
            return self.on_bus(self.answer(goal))
        except DBusError as error:
            self.get_logger().error(f"{error.type}: {error.text}")
            goal.abort()
            return Ask.Result(text=error.text, finish_reason="error")

    def cancel(self, goal):
        self.on_bus(self.cancel_answer(bytes(goal.goal_id.uuid)))
        return CancelResponse.ACCEPT

    async def cancel_answer(self, goal_id):
        if answer := self.answers.get(goal_id):
            await answer.cancel()

    async def answer(self, goal):
        asked = goal.request
        messages = [message("system", asked.system)] if asked.system else []
        messages.append(message("user", asked.prompt))
        options = fields(priority=asked.priority or "normal")
        if asked.max_tokens:
            options |= fields(max_tokens=asked.max_tokens)
        call = self.ganglion.manager.call_generate(messages, options)
        answer = await self.ganglion.answer(call)
        goal_id = bytes(goal.goal_id.uuid)
        self.answers[goal_id] = answer
        try:
            # A goal may have been cancelled before its answer began.
            if goal.is_cancel_requested:
                await answer.cancel()
            async for piece in answer:
                goal.publish_feedback(Ask.Feedback(text=piece))
            await answer.done()
        finally:
            del self.answers[goal_id]
        if goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.succeed()
        return Ask.Result(
            text=answer.text,
            finish_reason=answer.reason,
            prompt_tokens=answer.usage["prompt_tokens"],
            completion_tokens=answer.usage["completion_tokens"],
        )


def main():
    rclpy.init()
    node = Asker()
    try:
        rclpy.spin(node, MultiThreadedExecutor())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


main()
