"""The HTTP door: what a runner answers on its port. Only this package knows FastAPI and Starlette.

It decides nothing about turns: it checks what came in, calls the runner or reads its journal, and says what came of it.
"""
