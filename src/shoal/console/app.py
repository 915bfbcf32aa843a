"""The console's HTTP application: its routes, its pages, and errors as answers."""

from collections.abc import Callable, Mapping
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

import shoal
from shoal.console.console import Console
from shoal.console.extensions import Extension
from shoal.console.guard import App, Guard
from shoal.console.routes import admin, history, live, queues, session
from shoal.console.routes.common import REFUSALS, allowed, status_of
from shoal.errors import ShoalError

STATIC = Path(__file__).parent / "static"


def make_app(
    console: Console, hosts: Callable[[], frozenset[str]], extensions: Mapping[str, Extension] | None = None
) -> App:
    """The application. `hosts` says what the header Host of a request may be."""
    app = FastAPI(
        title="Shoal console",
        version=shoal.__version__,
        description="What a console shows and does. Programs show a token: `Authorization: Bearer TOKEN`.",
        openapi_url="/api/v1/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.console, app.state.extensions = console, extensions or {}
    api = APIRouter(prefix="/api/v1")
    for part in (session, live, queues, history, admin):
        api.include_router(part.router)
    for name, extension in (extensions or {}).items():
        if extension.router is not None:
            api.include_router(
                extension.router,
                prefix=f"/ext/{name}",
                responses=REFUSALS,
                dependencies=[Depends(allowed("viewer"))],
            )
        app.mount(f"/ext/{name}", StaticFiles(directory=extension.files))
    app.include_router(api)
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    async def failed(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_of(error))

    for kind in (ShoalError, ValueError):
        app.add_exception_handler(kind, failed)
    return Guard(app, hosts)
