"""The host of an agent's custom tools: an MCP server on standard input and output that offers
functions of the user's Python files. massgen runs it in the agent's sandbox with two variables:
`SETUP`, what to offer, and `INPUT`, where requests come from. It needs only the standard
library."""

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
STREAMED_RESULTS_MAX = 10_000
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
INSTALL_HINT = "run `pip install massgen`, or set `path` to your own file"


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
    """Returns the directory of the package `massgen`, or None if it is not installed."""
    try:
        spec = importlib.machinery.PathFinder.find_spec("massgen")
    except (ImportError, ValueError):
        return None
    directories = list(spec.submodule_search_locations or []) if spec else []
    return directories[0] if directories else None


def add_own_modules(package):
    """Adds the modules that tools import. What they lack is read from the package, if it is
    installed; importing all of it would take seconds."""
    modules = {name: types.ModuleType(name) for name in OWN_MODULES}
    modules["massgen"].__path__ = [package] if package else []
    modules["massgen.tool"].__path__ = [os.path.join(package, "tool")] if package else []
    for name in ["massgen.tool", "massgen.tool._result"]:
        vars(modules[name]).update(RESULT_NAMES)
    for name in ["massgen.tool", "massgen.tool._decorators"]:
        modules[name].context_params = context_params
    modules["massgen"].tool = modules["massgen.tool"]
    modules["massgen.tool"]._result = modules["massgen.tool._result"]
    modules["massgen.tool"]._decorators = modules["massgen.tool._decorators"]
    sys.modules.update(modules)


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

    def load_with_fallback(self, load):
        """Loads with massgen's own modules, and if these lack something, with the package's."""
        try:
            return load()
        except (ImportError, AttributeError) as error:
            if not self.package or "massgen" not in str(error):
                raise
            remove_own_modules()
            return load()

    def load_module(self, entry):
        """Returns the module that an entry names."""
        path, source = entry.get("path"), entry.get("source")
        if path is None:
            return None
        if path not in self.loaded:
            try:
                self.loaded[path] = self.load_with_fallback(lambda: self.load(path, source))
            except Unusable as error:
                self.loaded[path] = error
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                self.loaded[path] = Unusable(f"its file cannot be loaded: {brief_error(error)}")
        module = self.loaded[path]
        if isinstance(module, Unusable):
            raise module
        return module

    def load(self, path, source):
        if source is None and path.endswith(".py"):
            path, source = self.read_packaged_file(path)
        if source is None:
            return self.import_by_name(path)
        module_stem = re.sub(r"\W", "_", os.path.basename(path)[:-3])
        name = f"custom_tools_{len(self.loaded)}_{module_stem}"
        module = types.ModuleType(name)
        module.__file__ = path
        directory = os.path.dirname(path)
        if directory not in sys.path:
            sys.path.append(directory)
        sys.modules[name] = module
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
        exec(compile(source, path, "exec"), vars(module))
        return module

    def read_packaged_file(self, path):
        """Reads a file of the package `massgen`."""
        if not path.startswith("massgen/") and not self.package:
            raise Unusable(
                f"there is no file `{path}`: relative paths start in the directory of the config"
            )
        if not self.package:
            raise Unusable(f"there is no file `{path}`, and no package `massgen`: {INSTALL_HINT}")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        rel_parts = parts[1:] if parts[:1] == ["massgen"] else ["tool"] + parts
        file_path = os.path.join(self.package, *rel_parts)
        is_inside = os.path.realpath(file_path).startswith(os.path.realpath(self.package) + os.sep)
        if ".." in parts or not is_inside or not os.path.isfile(file_path):
            raise Unusable(f"there is no file `{path}`, also not in the package `massgen`")
        with open(file_path, encoding="utf-8") as file:
            return file_path, file.read(1 << 20)

    def import_by_name(self, path):
        """Imports a module by its name, in `massgen.tool` first."""
        for name in [f"massgen.tool.{path}", f"massgen.tool._{path}", path]:
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                if not error.name or not name.startswith(error.name):
                    raise
        raise Unusable(f"there is no module `{path}`")

    def find_function(self, entry):
        module, name = self.load_module(entry), entry["function"]
        if module is None:
            return self.find_built_in(name)
        function = getattr(module, name, None)
        if function is None:
            raise Unusable(f"`{entry['path']}` has no function `{name}`")
        if not callable(function):
            raise Unusable(f"`{name}` of `{entry['path']}` is not a function")
        return function

    def find_built_in(self, name):
        """Finds a function of the package `massgen` by its name alone."""
        if not self.package:
            raise Unusable(f"it has no `path`, and there is no package `massgen`: {INSTALL_HINT}")
        module_names = ["_basic", "_code_executors", "_file_handlers", "_multimodal_tools"]
        for module_name in module_names:
            try:
                load = lambda: importlib.import_module(f"massgen.tool.{module_name}")
                function = getattr(self.load_with_fallback(load), name, None)
            except Exception:
                continue
            if callable(function):
                return function
        raise Unusable(f"the package `massgen` has no function `{name}`: set its `path`")

    def discover(self, excluded, notes):
        """Yields the tools of the package's directories that describe themselves."""
        if not self.package:
            notes.append(
                "`auto_discover_custom_tools` offers nothing: there is no package `massgen`: "
                "run `pip install massgen`"
            )
            return
        root = os.path.join(self.package, "tool")
        for name in sorted(os.listdir(root)):
            describes_itself = os.path.isfile(os.path.join(root, name, "TOOL.md"))
            if name in excluded or not describes_itself:
                continue
            try:
                load = lambda: importlib.import_module(f"massgen.tool.{name}")
                module = self.load_with_fallback(load)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                reason = brief_error(error)
                notes.append(f"the tools in `massgen/tool/{name}` are not offered: {reason}")
                continue
            for public_name in sorted(vars(module)):
                function = getattr(module, public_name)
                if not public_name.startswith("_") and returns_result(function):
                    yield public_name, function


def returns_result(function):
    if not inspect.isfunction(function):
        return False
    annotation = function.__annotations__.get("return", "")
    return "ExecutionResult" in (annotation if isinstance(annotation, str) else repr(annotation))


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
    description, parameter_docs = [], {}
    section, name, indent = None, None, 0
    lines = inspect.cleandoc(text or "").splitlines()
    for index, line in enumerate(lines):
        stripped = line.strip()
        field_match = FIELD.match(stripped)
        next_line = lines[index + 1].strip() if index + 1 < len(lines) else ""
        is_underlined = len(next_line) > 2 and set(next_line) == {"-"}
        is_heading = stripped.endswith(":") or is_underlined
        if line == stripped and SECTION.match(stripped) and is_heading:
            section, name = stripped.rstrip(": ").lower(), None
        elif field_match:
            section, name = "field", None
            if field_match.group(1) in ("param", "parameter", "arg", "argument"):
                name = field_match.group(2).split()[-1] if field_match.group(2).split() else None
                if name:
                    parameter_docs[name], indent = [field_match.group(3)], 0
        elif section is None:
            description.append(line)
        elif section in ("args", "arguments", "parameters", "params"):
            match = PARAMETER.match(stripped)
            depth = len(line) - len(line.lstrip())
            if match and (name is None or depth <= indent):
                name, indent = match.group(1), depth
                parameter_docs[name] = [match.group(2)]
                if line == stripped:  # NumPy: `name : type`, described on the lines below.
                    parameter_docs[name] = []
            elif line == stripped and stripped.isidentifier():
                name, indent = stripped, 0
                parameter_docs[name] = []
            elif name and stripped and set(stripped) != {"-"}:
                parameter_docs[name].append(stripped)
        elif section == "field" and name and stripped:
            parameter_docs[name].append(stripped)
    parameter_texts = {
        name: " ".join(part for part in parts if part) for name, parts in parameter_docs.items()
    }
    return "\n".join(description).strip(), parameter_texts


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


def enum_schema(values):
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
    inner_schema = lambda annotation: schema_of(annotation, depth - 1)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is not None and hasattr(kind, "__metadata__"):
        schema = inner_schema(parts[0])
        metadata = [getattr(item, "description", item) for item in kind.__metadata__]
        descriptions = [item for item in metadata if isinstance(item, str)]
        return {**schema, "description": descriptions[0]} if descriptions else schema
    if origin is typing.Literal:
        return enum_schema(parts)
    if origin is typing.Union or origin is getattr(types, "UnionType", typing.Union):
        return {"anyOf": [inner_schema(part) for part in parts]}
    if origin in LISTS or kind in LISTS:
        items = [part for part in parts if part is not Ellipsis]
        schema = {"type": "array"}
        if len(items) == 1:
            schema["items"] = inner_schema(items[0])
        return schema
    if origin in MAPPINGS or kind in MAPPINGS:
        schema = {"type": "object"}
        if len(parts) == 2 and inner_schema(parts[1]):
            schema["additionalProperties"] = inner_schema(parts[1])
        return schema
    if isinstance(kind, type):
        return schema_of_class(kind, inner_schema)
    return {}


def schema_of_class(kind, inner_schema):
    if issubclass(kind, enum.Enum):
        return enum_schema([member.value for member in kind])
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    if issubclass(kind, os.PathLike):
        return {"type": "string"}
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__total__"):
        fields = typing.get_type_hints(kind)
        properties = {key: inner_schema(fields[key]) for key in fields}
        schema = {"type": "object", "properties": properties}
        required = sorted(getattr(kind, "__required_keys__", []))
        return {**schema, "required": required} if required else schema
    for base in (bool, int, float, str):
        if issubclass(kind, base):
            return dict(SIMPLE[base])
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
        for key in sorted(injected - set(preset)):
            if key not in known:
                raise Unusable(f"`context_params` has `{key}`, which it does not take")
            if context.get(key) is not None:
                self.hidden[key] = context[key]
            elif parameters[key].default is inspect.Parameter.empty:
                raise Unusable(f"it needs `{key}`, which massgen does not give to tools")
        self.parameters = {
            key: parameter
            for key, parameter in parameters.items()
            if key not in self.hidden
            and key not in injected
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
        kinds = [parameter.kind for parameter in self.parameters.values()]
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            raise Unusable("it has parameters that can only be given by position")
        doc_description, parameter_docs = read_docstring(target.__doc__)
        self.description = description or doc_description
        self.schema = self.describe(target, parameter_docs)

    def describe(self, target, parameter_docs):
        try:
            hints = typing.get_type_hints(target, include_extras=True)
        except TypeError:
            hints = {}
        except Exception as error:
            hints = {}
            reason = brief_error(error)
            self.notes.append(
                f"`{PREFIX}{self.name}` is offered without types: they cannot be read: {reason}"
            )
        properties, required = {}, []
        for key, parameter in self.parameters.items():
            schema = schema_of(hints.get(key, inspect.Parameter.empty))
            if parameter_docs.get(key):
                schema["description"] = parameter_docs[key]
            if parameter.default is inspect.Parameter.empty:
                required.append(key)
            elif parameter.default is not None and as_json(parameter.default) is not None:
                schema["default"] = as_json(parameter.default)
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
            outcome = self.function(**arguments)
        elif asyncio.iscoroutinefunction(target):
            outcome = await self.function(**arguments)
        else:
            outcome = await run_in_thread(lambda: exhaust_generator(self.function(**arguments)))
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if inspect.isasyncgen(outcome):
            results = []
            async for result in outcome:
                results = add_result(results, result)
            return reply(results)
        return reply(outcome if isinstance(outcome, StreamedResults) else [outcome])

    def expected(self):
        return ", ".join(f"`{key}`" for key in self.parameters) or "none"


class StreamedResults(list):
    """The results of a generator."""


def exhaust_generator(outcome):
    """Returns the results of a generator, run to its end in the thread of the call, and any other
    outcome as it is."""
    if not inspect.isgenerator(outcome):
        return outcome
    results = StreamedResults()
    for result in outcome:
        results = StreamedResults(add_result(results, result))
    return results


def add_result(results, result):
    """Adds a result; what is only for a log goes to standard error."""
    if getattr(result, "is_log", False):
        for block in getattr(result, "output_blocks", []):
            print(getattr(block, "data", block), file=sys.stderr)
        return results
    if len(results) >= STREAMED_RESULTS_MAX:
        raise ValueError(f"it yields more than {STREAMED_RESULTS_MAX} results")
    results.append(result)
    return results


async def run_in_thread(call):
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle_future(set_outcome, value):
        if not future.done():
            set_outcome(value)

    def run_call():
        try:
            outcome = (future.set_result, call())
        except BaseException as error:
            # A future takes no `StopIteration`.
            if isinstance(error, StopIteration):
                error = RuntimeError("StopIteration")
            outcome = (future.set_exception, error)
        loop.call_soon_threadsafe(settle_future, *outcome)

    # A call that is no longer waited for must not keep the host alive.
    threading.Thread(target=run_call, daemon=True).start()
    return await future


# Results.


def to_encodable(text):
    """Returns text that JSON in UTF-8 can carry."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def text_block(text):
    return {"type": "text", "text": to_encodable(text)}


def limit_blocks(blocks):
    """Cuts what is longer than a result may be: a message that is too long would get lost."""
    kept_blocks, text_left, data_left = [], TEXT_CHARS_MAX, ALL_DATA_CHARS_MAX
    for block in blocks[:BLOCKS_MAX]:
        if "data" in block:
            size = len(block["data"])
            if size > data_left:
                block = text_block(f"[{block['type']}: {size} characters of base64 left out]")
            else:
                data_left -= size
        if "text" in block:
            excess = len(block["text"]) - text_left
            if excess > 0:
                cut = block["text"][:text_left]
                kept_blocks.append(text_block(f"{cut}\n[{excess} characters left out]"))
                break
            text_left -= len(block["text"])
        kept_blocks.append(block)
    if len(blocks) > BLOCKS_MAX:
        kept_blocks.append(text_block(f"[{len(blocks) - BLOCKS_MAX} parts left out]"))
    return kept_blocks


def data_block(kind, data):
    """Returns an image or audio block, for base64 data or a `data:` URL."""
    data = data if isinstance(data, str) else base64.b64encode(data).decode()
    mime = None
    if data.startswith("data:"):
        header, _, data = data.partition(",")
        mime = header[5:].split(";")[0] or None
    data = "".join(data.split())
    if len(data) > DATA_CHARS_MAX:
        return text_block(f"[{kind}: {len(data)} characters of base64, more than {DATA_CHARS_MAX}]")
    try:
        start = base64.b64decode(data, validate=True)[:16]
    except ValueError:
        return text_block(f"[{kind}: not base64]")
    if kind == "audio":
        return {"type": "audio", "data": data, "mimeType": mime or "audio/wav"}
    for magic, image_type in IMAGE_TYPES:
        if start.startswith(magic):
            mime = image_type
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
    final_results = [result for result in results if getattr(result, "is_final", True)]
    shown_results = final_results or results[-1:]
    blocks = limit_blocks([block for result in shown_results for block in blocks_of(result)])
    was_interrupted = any(getattr(result, "was_interrupted", False) for result in shown_results)
    return {"content": blocks or [text_block("")], "isError": was_interrupted}


def failure(message):
    return {"content": [text_block(message)], "isError": True}


def brief_error(error):
    message = " ".join(to_encodable(error).split())
    name = type(error).__name__
    return (f"{name}: {message}" if message else name)[:NOTE_CHARS_MAX]


def describe_error(error, function):
    """Returns the error and the calls in the tool's own file that led to it."""
    message = to_encodable(error)[:ERROR_CHARS_MAX]
    name = type(error).__name__
    lines = [f"{name}: {message}" if message else name]
    target = inspect.unwrap(getattr(function, "func", function))
    file = getattr(getattr(target, "__code__", None), "co_filename", None)
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if frame.filename == file][-FRAMES_MAX:]
    for frame in own_frames:
        lines.append(f"  line {frame.lineno} of {os.path.basename(file)}, in {frame.name}")
    if isinstance(error, OSError) and "name resolution" in message:
        lines.append("This tool has no access to the network, or not to this host.")
    return "\n".join(lines)


# The protocol.


class Host:
    def __init__(self, setup, output):
        self.output, self.lock = output, threading.Lock()
        self.tools, self.notes, self.calls = {}, [], {}
        loader, context = Loader(), setup["context"]
        for entry in setup["tools"]:
            name = entry["name"]
            try:
                function = loader.find_function(entry)
                tool = Tool(
                    function, name, entry.get("description"), entry["preset_args"], context
                )
            except Unusable as error:
                self.notes.append(f"`{PREFIX}{name}` is not offered: {error}")
                continue
            self.add(tool)
        if setup.get("discover") is not None:
            for public_name, function in loader.discover(setup["discover"], self.notes):
                try:
                    if public_name not in self.tools:
                        self.add(Tool(function, public_name, None, {}, context))
                except Unusable as error:
                    self.notes.append(f"`{PREFIX}{public_name}` is not offered: {error}")

    def add(self, tool):
        self.notes.extend(tool.notes)
        self.tools[tool.name] = tool

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True) + "\n"
        with self.lock:
            self.output.write(line.encode())
            self.output.flush()

    def instructions(self):
        notes = [" ".join(to_encodable(note).split())[: 2 * NOTE_CHARS_MAX] for note in self.notes]
        omitted_count = len(notes) - NOTES_MAX
        omission = [f"and {omitted_count} more"] if omitted_count > 0 else []
        return "\n".join(notes[:NOTES_MAX] + omission)

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
            tools = [
                {
                    "name": tool.name,
                    "description": to_encodable(tool.description)[:DESCRIPTION_CHARS_MAX],
                    "inputSchema": as_json(tool.schema) or {"type": "object"},
                }
                for tool in self.tools.values()
            ]
            return {"tools": tools}
        return None

    async def call(self, request_id, params):
        tool = self.tools.get(params.get("name"))
        try:
            if tool is None:
                result = failure("there is no such tool")
            else:
                result = await tool.call(params.get("arguments") or {})
            self.send({"id": request_id, "result": result})
        except asyncio.CancelledError:
            pass
        finally:
            self.calls.pop(request_id, None)

    def receive(self, line):
        message = json.loads(line)
        method, request_id = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method == "notifications/cancelled":
            call = self.calls.get(params.get("requestId"))
            if call is not None:
                call.cancel()
        elif method == "tools/call":
            self.calls[request_id] = asyncio.ensure_future(self.call(request_id, params))
        elif method is not None and request_id is not None:
            result = self.answer(method, params)
            if result is None:
                error = {"code": -32601, "message": "not supported"}
                self.send({"id": request_id, "error": error})
            else:
                self.send({"id": request_id, "result": result})

    async def serve(self, input):
        loop = asyncio.get_running_loop()
        input_end = loop.create_future()

        def read():
            for line in input:
                loop.call_soon_threadsafe(self.receive, line)
            loop.call_soon_threadsafe(input_end.set_result, None)

        threading.Thread(target=read, daemon=True).start()
        await input_end


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
