"""A tool in LangChain's manner: a session with a workspace and an interpreter that remembers.

It has what such a tool has: name, description, args_schema, invoke() and ainvoke(). No package of LangChain's is
needed for that.
"""

from typing import Any, Dict, Optional

import cay


class PythonSession:
    name = "python"
    description = ("Runs Python in a sandbox. Variables, imports and files in the working directory stay from one "
                   "call to the next. The value of the last expression is returned.")
    args_schema: Dict[str, Any] = {
        "title": "python",
        "type": "object",
        "properties": {"code": {"type": "string", "description": "One cell of Python."}},
        "required": ["code"],
    }

    def __init__(self, **options: Any) -> None:
        self.sandbox = cay.Sandbox.create(**{"memory": "512m", "ttl": "1h", **options})

    def invoke(self, arguments: Dict[str, Any], config: Optional[Any] = None) -> str:
        try:
            result = self.sandbox.run_code(arguments["code"], context="main", timeout=60, output="32k")
        except cay.SandboxError as error:
            return f"[{error}]"
        return str(result) or "[done]"

    async def ainvoke(self, arguments: Dict[str, Any], config: Optional[Any] = None) -> str:
        try:
            sandbox = await cay.AsyncSandbox.connect(self.sandbox.id)
            result = await sandbox.run_code(arguments["code"], context="main", timeout=60, output="32k")
        except cay.SandboxError as error:
            return f"[{error}]"
        return str(result) or "[done]"

    def close(self) -> None:
        self.sandbox.kill()


if __name__ == "__main__":
    session = PythonSession()
    try:
        print(session.invoke({"code": "total = sum(range(10))"}))
        print(session.invoke({"code": "total * 2"}))
    finally:
        session.close()
