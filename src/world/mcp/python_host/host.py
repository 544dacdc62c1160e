"""The host of an agent's custom tools: an MCP server on standard input and output that offers
functions of the user's Python files. massgen runs it in the agent's sandbox with two variables:
`SETUP`, what to offer, and `INPUT`, where requests come from. It needs only the standard library."""

import asyncio
import base64
import collections.abc
import dataclasses
import enum
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import linecache
import os
import re
import sys
import threading
import traceback
import types
import typing

PREFIX = "custom_tool__"
PROTOCOL_VERSION = "2025-06-18"
# Limits of one result, below those of massgen: characters of text, and of base64 data of one block
# and of all.
TEXT_CHARS_MAX = 200_000
DATA_CHARS_MAX = 4 * 1024 * 1024
ALL_DATA_CHARS_MAX = 8 * 1024 * 1024
BLOCKS_MAX = 400
# Results of a generator that are kept.
STREAMED_MAX = 10_000
# Limits of an error: characters of its message, and calls that lead to it.
ERROR_CHARS_MAX = 2000
FRAMES_MAX = 5
# Limits of the report on tools that are not offered.
NOTES_MAX = 20
NOTE_CHARS_MAX = 300
SCHEMA_DEPTH_MAX = 8
DESCRIPTION_CHARS_MAX = 4000

IMAGE_TYPES = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
]
TO_INSTALL = "run `pip install massgen`, or set `path` to your own file"


# The module `massgen.tool`, as far as tools use it.


@dataclasses.dataclass
class ContentBlock:
    block_type: str
    data: str


class TextContent(ContentBlock):
    def __init__(self, data):
        super().__init__("text", data)


class ImageContent(ContentBlock):
    def __init__(self, data):
        super().__init__("image", data)


class AudioContent(ContentBlock):
    def __init__(self, data):
        super().__init__("audio", data)


@dataclasses.dataclass
class ExecutionResult:
    output_blocks: list
    meta_info: typing.Optional[dict] = None
    is_streaming: bool = False
    is_final: bool = True
    is_log: bool = False
    was_interrupted: bool = False
    result_id: str = ""


def context_params(*names):
    def mark(function):
        function.__context_params__ = set(names)
        return function

    return mark


RESULT_NAMES = {
    "ContentBlock": ContentBlock,
    "TextContent": TextContent,
    "ImageContent": ImageContent,
    "AudioContent": AudioContent,
    "ExecutionResult": ExecutionResult,
}
OWN_MODULES = ["massgen", "massgen.tool", "massgen.tool._result", "massgen.tool._decorators"]


def installed_package():
    """Returns the directory of the package `massgen`, or None."""
    try:
        spec = importlib.machinery.PathFinder.find_spec("massgen")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


def add_own_modules(package):
    """Adds the modules that tools import. What they lack is read from the package, if it is
    installed; importing all of it would take seconds."""
    made = {name: types.ModuleType(name) for name in OWN_MODULES}
    made["massgen"].__path__ = [package] if package else []
    made["massgen.tool"].__path__ = [os.path.join(package, "tool")] if package else []
    for name in ["massgen.tool", "massgen.tool._result"]:
        vars(made[name]).update(RESULT_NAMES)
    for name in ["massgen.tool", "massgen.tool._decorators"]:
        made[name].context_params = context_params
    made["massgen"].tool = made["massgen.tool"]
    made["massgen.tool"]._result = made["massgen.tool._result"]
    made["massgen.tool"]._decorators = made["massgen.tool._decorators"]
    sys.modules.update(made)


def remove_own_modules():
    for name in [name for name in sys.modules if name.split(".")[0] == "massgen"]:
        del sys.modules[name]


# Loading.


class Unusable(Exception):
    """Why a tool is not offered."""


class Loader:
    def __init__(self):
        self.package = installed_package()
        self.loaded = {}
        add_own_modules(self.package)

    def attempt(self, load):
        """Loads with massgen's own modules, and if these lack something, with the package's."""
        try:
            return load()
        except (ImportError, AttributeError) as error:
            if not self.package or "massgen" not in str(error):
                raise
            remove_own_modules()
            return load()

    def module(self, wanted):
        """Returns the module that an entry names."""
        path, source = wanted.get("path"), wanted.get("source")
        if path is None:
            return None
        if path not in self.loaded:
            try:
                self.loaded[path] = self.attempt(lambda: self.load(path, source))
            except Unusable as why:
                self.loaded[path] = why
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                self.loaded[path] = Unusable(f"its file cannot be loaded: {brief(error)}")
        found = self.loaded[path]
        if isinstance(found, Unusable):
            raise found
        return found

    def load(self, path, source):
        if source is None and path.endswith(".py"):
            path, source = self.packaged(path)
        if source is None:
            return self.named(path)
        stem = re.sub(r"\W", "_", os.path.basename(path)[:-3])
        name = f"custom_tools_{len(self.loaded)}_{stem}"
        module = types.ModuleType(name)
        module.__file__ = path
        directory = os.path.dirname(path)
        if directory not in sys.path:
            sys.path.append(directory)
        sys.modules[name] = module
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
        exec(compile(source, path, "exec"), vars(module))
        return module

    def packaged(self, path):
        """Reads a file of the package `massgen`."""
        if not path.startswith("massgen/") and not self.package:
            raise Unusable(
                f"there is no file `{path}`: relative paths start in the directory of the config"
            )
        if not self.package:
            raise Unusable(f"there is no file `{path}`, and no package `massgen`: {TO_INSTALL}")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        below = parts[1:] if parts[:1] == ["massgen"] else ["tool"] + parts
        place = os.path.join(self.package, *below)
        inside = os.path.realpath(place).startswith(os.path.realpath(self.package) + os.sep)
        if ".." in parts or not inside or not os.path.isfile(place):
            raise Unusable(f"there is no file `{path}`, also not in the package `massgen`")
        with open(place, encoding="utf-8") as file:
            return place, file.read(1 << 20)

    def named(self, path):
        """Imports a module by its name, in `massgen.tool` first."""
        for name in [f"massgen.tool.{path}", f"massgen.tool._{path}", path]:
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                if not error.name or not name.startswith(error.name):
                    raise
        raise Unusable(f"there is no module `{path}`")

    def function(self, wanted):
        module, name = self.module(wanted), wanted["function"]
        if module is None:
            return self.built_in(name)
        found = getattr(module, name, None)
        if found is None:
            raise Unusable(f"`{wanted['path']}` has no function `{name}`")
        if not callable(found):
            raise Unusable(f"`{name}` of `{wanted['path']}` is not a function")
        return found

    def built_in(self, name):
        """Finds a function of the package `massgen` by its name alone."""
        if not self.package:
            raise Unusable(f"it has no `path`, and there is no package `massgen`: {TO_INSTALL}")
        modules = ["_basic", "_code_executors", "_file_handlers", "_multimodal_tools"]
        for module in modules:
            try:
                load = lambda: importlib.import_module(f"massgen.tool.{module}")
                found = getattr(self.attempt(load), name, None)
            except Exception:
                continue
            if callable(found):
                return found
        raise Unusable(f"the package `massgen` has no function `{name}`: set its `path`")

    def discovered(self, excluded, notes):
        """Yields the tools of the package's directories that describe themselves."""
        if not self.package:
            notes.append(
                "`auto_discover_custom_tools` offers nothing: there is no package `massgen`: "
                "run `pip install massgen`"
            )
            return
        root = os.path.join(self.package, "tool")
        for name in sorted(os.listdir(root)):
            described = os.path.isfile(os.path.join(root, name, "TOOL.md"))
            if name in excluded or not described:
                continue
            try:
                load = lambda: importlib.import_module(f"massgen.tool.{name}")
                module = self.attempt(load)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                notes.append(f"the tools in `massgen/tool/{name}` are not offered: {brief(error)}")
                continue
            for public in sorted(vars(module)):
                function = getattr(module, public)
                if not public.startswith("_") and returns_result(function):
                    yield public, function


def returns_result(function):
    if not inspect.isfunction(function):
        return False
    said = function.__annotations__.get("return", "")
    return "ExecutionResult" in (said if isinstance(said, str) else repr(said))


# Docstrings and schemas.

SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|attributes|"
    r"see also|warnings?|references)\s*:?\s*$",
    re.IGNORECASE,
)
PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
FIELD = re.compile(r"^:(\w+)\s*([^:]*):\s*(.*)$")


def read_docstring(text):
    """Returns the description and what the sections say about each parameter."""
    description, about = [], {}
    section, name, indent = None, None, 0
    lines = inspect.cleandoc(text or "").splitlines()
    for index, line in enumerate(lines):
        bare = line.strip()
        field = FIELD.match(bare)
        after = lines[index + 1].strip() if index + 1 < len(lines) else ""
        underlined = len(after) > 2 and set(after) == {"-"}
        if line == bare and SECTION.match(bare) and (bare.endswith(":") or underlined):
            section, name = bare.rstrip(": ").lower(), None
        elif field:
            section, name = "field", None
            if field.group(1) in ("param", "parameter", "arg", "argument"):
                name = field.group(2).split()[-1] if field.group(2).split() else None
                if name:
                    about[name], indent = [field.group(3)], 0
        elif section is None:
            description.append(line)
        elif section in ("args", "arguments", "parameters", "params"):
            found = PARAMETER.match(bare)
            depth = len(line) - len(line.lstrip())
            if found and (name is None or depth <= indent):
                name, indent = found.group(1), depth
                about[name] = [found.group(2)]
                if line == bare:  # NumPy: `name : type`, described on the lines below.
                    about[name] = []
            elif line == bare and bare.isidentifier():
                name, indent = bare, 0
                about[name] = []
            elif name and bare and set(bare) != {"-"}:
                about[name].append(bare)
        elif section == "field" and name and bare:
            about[name].append(bare)
    said = {name: " ".join(part for part in parts if part) for name, parts in about.items()}
    return "\n".join(description).strip(), said


SIMPLE = {
    str: {"type": "string"},
    bytes: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    dict: {"type": "object"},
}
LISTS = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.Set,
)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def choices(values):
    """Returns the schema of one of these values."""
    kinds = {TYPE_NAMES.get(type(value)) for value in values}
    schema = {"enum": list(values)}
    if len(kinds) == 1 and None not in kinds:
        schema["type"] = kinds.pop()
    return schema


def schema_of(kind, depth=SCHEMA_DEPTH_MAX):
    """Returns the JSON schema of an annotation; any value where it says nothing."""
    if depth == 0 or kind in (inspect.Parameter.empty, typing.Any, object):
        return {}
    if isinstance(kind, type) and kind in SIMPLE:
        return dict(SIMPLE[kind])
    inner = lambda one: schema_of(one, depth - 1)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is not None and hasattr(kind, "__metadata__"):
        schema = inner(parts[0])
        said = [getattr(one, "description", one) for one in kind.__metadata__]
        said = [one for one in said if isinstance(one, str)]
        return {**schema, "description": said[0]} if said else schema
    if origin is typing.Literal:
        return choices(parts)
    if origin is typing.Union or origin is getattr(types, "UnionType", typing.Union):
        return {"anyOf": [inner(part) for part in parts]}
    if origin in LISTS or kind in LISTS:
        items = [part for part in parts if part is not Ellipsis]
        schema = {"type": "array"}
        if len(items) == 1:
            schema["items"] = inner(items[0])
        return schema
    if origin in MAPPINGS or kind in MAPPINGS:
        schema = {"type": "object"}
        if len(parts) == 2 and inner(parts[1]):
            schema["additionalProperties"] = inner(parts[1])
        return schema
    if isinstance(kind, type):
        return schema_of_class(kind, inner)
    return {}


def schema_of_class(kind, inner):
    if issubclass(kind, enum.Enum):
        return choices([member.value for member in kind])
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    if issubclass(kind, os.PathLike):
        return {"type": "string"}
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__total__"):
        fields = typing.get_type_hints(kind)
        schema = {"type": "object", "properties": {key: inner(fields[key]) for key in fields}}
        needed = sorted(getattr(kind, "__required_keys__", []))
        return {**schema, "required": needed} if needed else schema
    for simple in (bool, int, float, str):
        if issubclass(kind, simple):
            return dict(SIMPLE[simple])
    return {}


def as_json(value):
    """Returns the value as JSON has it, or None if it has no JSON."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None


class Tool:
    def __init__(self, function, name, description, preset, context):
        self.function, self.name = function, name
        target = getattr(function, "func", function)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            raise Unusable("its signature is unknown")
        self.notes = []
        self.hidden = dict(preset)
        known = set(parameters)
        unknown = sorted(set(preset) - known)
        if unknown:
            raise Unusable(f"`preset_args` has `{unknown[0]}`, which it does not take")
        injected = set(getattr(target, "__context_params__", ())) | ({"agent_cwd"} & known)
        for parameter in sorted(injected - set(preset)):
            if parameter not in known:
                raise Unusable(f"`context_params` has `{parameter}`, which it does not take")
            if context.get(parameter) is not None:
                self.hidden[parameter] = context[parameter]
            elif parameters[parameter].default is inspect.Parameter.empty:
                raise Unusable(f"it needs `{parameter}`, which massgen does not give to tools")
            else:
                injected.add(parameter)
        self.parameters = {
            key: one
            for key, one in parameters.items()
            if key not in self.hidden
            and key not in injected
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
        if any(one.kind is one.POSITIONAL_ONLY for one in self.parameters.values()):
            raise Unusable("it has parameters that can only be given by position")
        said, about = read_docstring(target.__doc__)
        self.description = description or said
        self.schema = self.describe(target, about)

    def describe(self, target, about):
        try:
            hints = typing.get_type_hints(target, include_extras=True)
        except TypeError:
            hints = {}
        except Exception as error:
            hints = {}
            self.notes.append(
                f"`{PREFIX}{self.name}` is offered without types: they cannot be read: {brief(error)}"
            )
        properties, required = {}, []
        for key, one in self.parameters.items():
            schema = schema_of(hints.get(key, inspect.Parameter.empty))
            if about.get(key):
                schema["description"] = about[key]
            if one.default is inspect.Parameter.empty:
                required.append(key)
            elif one.default is not None and as_json(one.default) is not None:
                schema["default"] = as_json(one.default)
            properties[key] = schema
        schema = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema

    async def call(self, arguments):
        unknown = sorted(set(arguments) - set(self.parameters))
        if unknown:
            return failure(f"there is no argument `{unknown[0]}`; expected {self.expected()}")
        missing = [key for key in self.schema.get("required", []) if key not in arguments]
        if missing:
            return failure(f"the argument `{missing[0]}` is missing")
        try:
            return await self.run({**self.hidden, **arguments})
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            traceback.print_exc(file=sys.stderr)
            return failure(describe_error(error, self.function))

    async def run(self, arguments):
        target = getattr(self.function, "func", self.function)
        if inspect.isasyncgenfunction(target):
            made = self.function(**arguments)
        elif asyncio.iscoroutinefunction(target):
            made = await self.function(**arguments)
        else:
            made = await in_thread(lambda: settle(self.function(**arguments)))
        if inspect.isawaitable(made):
            made = await made
        if inspect.isasyncgen(made):
            results = []
            async for result in made:
                results = kept(results, result)
            return reply(results)
        return reply(made if isinstance(made, Streamed) else [made])

    def expected(self):
        return ", ".join(f"`{key}`" for key in self.parameters) or "none"


class Streamed(list):
    """The results of a generator."""


def settle(made):
    """Runs a generator to its end, in the thread of the call."""
    if not inspect.isgenerator(made):
        return made
    results = Streamed()
    for result in made:
        results = Streamed(kept(results, result))
    return results


def kept(results, result):
    """Adds a result; what is only for a log goes to standard error."""
    if getattr(result, "is_log", False):
        for block in getattr(result, "output_blocks", []):
            print(getattr(block, "data", block), file=sys.stderr)
        return results
    if len(results) >= STREAMED_MAX:
        raise ValueError(f"it yields more than {STREAMED_MAX} results")
    results.append(result)
    return results


async def in_thread(call):
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def settle_future(set_outcome, value):
        if not done.done():
            set_outcome(value)

    def work():
        try:
            outcome = (done.set_result, call())
        except BaseException as error:
            # A future takes no `StopIteration`.
            if isinstance(error, StopIteration):
                error = RuntimeError("StopIteration")
            outcome = (done.set_exception, error)
        loop.call_soon_threadsafe(settle_future, *outcome)

    # A call that is no longer waited for must not keep the host alive.
    threading.Thread(target=work, daemon=True).start()
    return await done


# Results.


def clean(text):
    """Returns text that JSON in UTF-8 can carry."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def text_block(text):
    return {"type": "text", "text": clean(text)}


def within_limits(blocks):
    """Cuts what is longer than a result may be: a message that is too long would get lost."""
    kept, text_left, data_left = [], TEXT_CHARS_MAX, ALL_DATA_CHARS_MAX
    for block in blocks[:BLOCKS_MAX]:
        if "data" in block:
            size = len(block["data"])
            if size > data_left:
                block = text_block(f"[{block['type']}: {size} characters of base64 left out]")
            else:
                data_left -= size
        if "text" in block:
            more = len(block["text"]) - text_left
            if more > 0:
                cut = block["text"][:text_left]
                kept.append(text_block(f"{cut}\n[{more} characters left out]"))
                break
            text_left -= len(block["text"])
        kept.append(block)
    if len(blocks) > BLOCKS_MAX:
        kept.append(text_block(f"[{len(blocks) - BLOCKS_MAX} parts left out]"))
    return kept


def data_block(kind, data):
    """Returns an image or audio block, for base64 data or a `data:` URL."""
    data = data if isinstance(data, str) else base64.b64encode(data).decode()
    mime = None
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        mime = head[5:].split(";")[0] or None
    data = "".join(data.split())
    if len(data) > DATA_CHARS_MAX:
        return text_block(f"[{kind}: {len(data)} characters of base64, more than {DATA_CHARS_MAX}]")
    try:
        start = base64.b64decode(data, validate=True)[:16]
    except ValueError:
        return text_block(f"[{kind}: not base64]")
    if kind == "audio":
        return {"type": "audio", "data": data, "mimeType": mime or "audio/wav"}
    for magic, found in IMAGE_TYPES:
        if start.startswith(magic):
            mime = found
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        mime = "image/webp"
    return {"type": "image", "data": data, "mimeType": mime or "application/octet-stream"}


def blocks_of(result):
    if result is None:
        return []
    if isinstance(result, str):
        return [text_block(result)]
    if not hasattr(result, "output_blocks"):
        return [text_block(json.dumps(result, default=str, ensure_ascii=False, indent=2))]
    blocks = []
    for block in result.output_blocks:
        data = getattr(block, "data", block)
        kind = getattr(block, "block_type", "text")
        if kind in ("image", "audio") and isinstance(data, (str, bytes)):
            blocks.append(data_block(kind, data))
        else:
            blocks.append(text_block(data))
    return blocks


def reply(results):
    """Returns the result of a call: of a stream, what is not superseded by a final result."""
    final = [one for one in results if getattr(one, "is_final", True)]
    counted = final or results[-1:]
    blocks = within_limits([block for result in counted for block in blocks_of(result)])
    stopped = any(getattr(one, "was_interrupted", False) for one in counted)
    return {"content": blocks or [text_block("")], "isError": stopped}


def failure(why):
    return {"content": [text_block(why)], "isError": True}


def brief(error):
    said = " ".join(clean(error).split())
    name = type(error).__name__
    return (f"{name}: {said}" if said else name)[:NOTE_CHARS_MAX]


def describe_error(error, function):
    """Returns the error and the calls in the tool's own file that led to it."""
    said = clean(error)[:ERROR_CHARS_MAX]
    name = type(error).__name__
    lines = [f"{name}: {said}" if said else name]
    target = inspect.unwrap(getattr(function, "func", function))
    file = getattr(getattr(target, "__code__", None), "co_filename", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file][-FRAMES_MAX:]
    lines += [f"  line {frame.lineno} of {os.path.basename(file)}, in {frame.name}" for frame in own]
    if isinstance(error, OSError) and "name resolution" in said:
        lines.append("This tool has no access to the network, or not to this host.")
    return "\n".join(lines)


# The protocol.


class Host:
    def __init__(self, setup, output):
        self.output, self.lock = output, threading.Lock()
        self.tools, self.notes, self.calls = {}, [], {}
        loader, context = Loader(), setup["context"]
        for wanted in setup["tools"]:
            name = wanted["name"]
            try:
                function = loader.function(wanted)
                tool = Tool(
                    function, name, wanted.get("description"), wanted["preset_args"], context
                )
            except Unusable as why:
                self.notes.append(f"`{PREFIX}{name}` is not offered: {why}")
                continue
            self.add(tool)
        if setup.get("discover") is not None:
            for public, function in loader.discovered(setup["discover"], self.notes):
                try:
                    if public not in self.tools:
                        self.add(Tool(function, public, None, {}, context))
                except Unusable as why:
                    self.notes.append(f"`{PREFIX}{public}` is not offered: {why}")

    def add(self, tool):
        self.notes.extend(tool.notes)
        self.tools[tool.name] = tool

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True) + "\n"
        with self.lock:
            self.output.write(line.encode())
            self.output.flush()

    def instructions(self):
        notes = [" ".join(clean(note).split())[: 2 * NOTE_CHARS_MAX] for note in self.notes]
        more = len(notes) - NOTES_MAX
        return "\n".join(notes[:NOTES_MAX] + ([f"and {more} more"] if more > 0 else []))

    def answer(self, method, params):
        if method == "initialize":
            result = {
                "protocolVersion": params.get("protocolVersion", PROTOCOL_VERSION),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "massgen-custom-tools", "version": "1"},
            }
            return {**result, "instructions": self.instructions()} if self.notes else result
        if method == "ping":
            return {}
        if method == "tools/list":
            offered = [
                {
                    "name": tool.name,
                    "description": clean(tool.description)[:DESCRIPTION_CHARS_MAX],
                    "inputSchema": as_json(tool.schema) or {"type": "object"},
                }
                for tool in self.tools.values()
            ]
            return {"tools": offered}
        return None

    async def call(self, number, params):
        tool = self.tools.get(params.get("name"))
        try:
            if tool is None:
                result = failure("there is no such tool")
            else:
                result = await tool.call(params.get("arguments") or {})
            self.send({"id": number, "result": result})
        except asyncio.CancelledError:
            pass
        finally:
            self.calls.pop(number, None)

    def receive(self, line):
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method == "notifications/cancelled":
            call = self.calls.get(params.get("requestId"))
            if call is not None:
                call.cancel()
        elif method == "tools/call":
            self.calls[number] = asyncio.ensure_future(self.call(number, params))
        elif method is not None and number is not None:
            result = self.answer(method, params)
            if result is None:
                error = {"code": -32601, "message": "not supported"}
                self.send({"id": number, "error": error})
            else:
                self.send({"id": number, "result": result})

    async def serve(self, input):
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def read():
            for line in input:
                loop.call_soon_threadsafe(self.receive, line)
            loop.call_soon_threadsafe(ended.set_result, None)

        threading.Thread(target=read, daemon=True).start()
        await ended


def main():
    # What tools print is for the log: only this host may write to the protocol's pipe.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    host = Host(SETUP, output)
    asyncio.run(host.serve(INPUT))
    # Threads of calls that are still running end with the process.
    sys.stderr.flush()
    os._exit(0)


main()
