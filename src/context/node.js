/*
 * Theory of operation: a node that remembers, for one context.
 *
 * The control channel (a stream socket; JSON texts, each ended by a NUL) is fd 3, or fd 0 where nobody
 * could put it elsewhere: node has no dup(). In fd 0's place a program that a cell starts with
 * `stdio: 'inherit'` would read it, so whoever starts us does `exec 3<&0 </dev/null` first. Node marks
 * all it has inherited close-on-exec by itself. --no-force-async-hooks-checks lets node go on where a
 * timer's callback was broken off.
 *
 * Cells are evaluated by V8's own REPL mode, which node:inspector reaches in this thread: const, let and
 * class may be declared again, await stands at the top, and a value comes of the last statement. What
 * that mode does not have is import, in both forms; they are rewritten, where V8 says that they are
 * (see "Imports"): nothing here reads JavaScript itself.
 *
 * What a cell does before it first waits, and making its value readable, is done below a vm.Script with
 * breakOnSigint, so that SIGINT ends also a loop. Later parts of a cell run below node's event loop; while
 * that waits, the SIGINT handler ends the cell, and `watcher` below ends what doesn't wait.
 */
'use strict';
(() => {
    const fs = require('fs');
    const net = require('net');
    const path = require('path');
    const util = require('util');
    const vm = require('vm');
    const { createRequire } = require('module');
    const { pathToFileURL } = require('url');
    const { Session } = require('inspector');

    const { parse, stringify } = JSON;

    const DRIVER = 'cay-context';
    const MESSAGE_MAX = 16 << 20;
    const VALUE_MAX = 4 << 20;
    const CELL_MAX = 16 << 20;
    const BUNDLES_MAX = 64;

    const mib = (bytes) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;

    /* The cell that runs: {results, bytes, left_out, end(exception)}. */
    let cell = null;
    let cells = 0;

    // Control channel

    const isSocket = (fd) => {
        try {
            return fs.fstatSync(fd).isSocket();
        } catch {
            return false;
        }
    };
    const CONTROL = isSocket(3) ? 3 : 0;

    /*
     * All at once, and not by node's streams: an interrupt that breaks these off in the middle of a write leaves them
     * waiting for ever. Their fds don't block, though, once node has looked at them.
     */
    const { writeSync } = fs;
    const never = new Int32Array(new SharedArrayBuffer(4));
    const writeAll = (fd, bytes, wrote) => {
        for (let at = 0; at < bytes.length;) {
            try {
                at += writeSync(fd, bytes, at);
                wrote?.(at);
            } catch (error) {
                if (error.code !== 'EAGAIN')
                    throw error;
                Atomics.wait(never, 0, 0, 1);
            }
        }
    };

    /* A message that was begun is ended before the next. */
    let unsent = Buffer.alloc(0);
    const finish = () => {
        const bytes = unsent;
        writeAll(CONTROL, bytes, (at) => {
            unsent = bytes.subarray(at);
        });
    };
    const sendText = (text) => {
        finish();
        unsent = Buffer.from(`${text}\0`);
        finish();
    };
    const send = (message) => sendText(stringify(message));
    const note = (text) => send({ type: 'note', text });

    // Output

    const later = setImmediate;
    const { nextTick } = process;
    const bytesOf = (data, encoding) => (typeof data === 'string'
        ? Buffer.from(data, Buffer.isEncoding(encoding) ? encoding : 'utf8') : Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    const writer = (fd) => (data, encoding, done) => {
        const then = typeof encoding === 'function' ? encoding : done;
        if (typeof data !== 'string' && !ArrayBuffer.isView(data))
            throw new TypeError('what is written has to be a string, a Buffer or a typed array');
        try {
            writeAll(fd, bytesOf(data, encoding));
        } catch {
            // Closed by the cell: nothing can be said there.
        }
        if (then)
            nextTick(then);
        return true;
    };
    const toStdout = writer(1);
    const toStderr = writer(2);
    process.stdout.write = toStdout;
    process.stderr.write = toStderr;
    const complain = (text) => toStderr(`${text}\n`);

    // Errors

    const OURS = [DRIVER, 'node:internal/process/task_queues'];
    const isDriver = (frame) => OURS.includes(frame.getScriptNameOrSourceURL());
    const isDoor = (frame) => frame.getFileName() === 'node:inspector';
    // A name with a space in it can't be said to V8 by a comment.
    const named = (text) => text.replace(/\bcell-(\d+)(?=:\d)/g, 'cell $1');

    Error.prepareStackTrace = (error, frames) => {
        const bottom = frames.findIndex((f, i) => isDoor(f) && (i + 1 === frames.length || isDriver(frames[i + 1])));
        const own = (bottom < 0 ? frames : frames.slice(0, bottom)).filter((f) => !isDriver(f));
        let head;
        try {
            head = String(error);
        } catch {
            head = Error.prototype.toString.call(error);
        }
        return [head, ...own.map((f) => `    at ${named(String(f))}`)].join('\n');
    };

    const inspect = (value) => {
        try {
            return util.inspect(value);
        } catch {
            return util.inspect(value, { customInspect: false, getters: false });
        }
    };

    const exceptionOf = (error) => {
        if (!util.types.isNativeError(error))
            return { name: error?.constructor?.name ?? typeof error, value: inspect(error), traceback: `Uncaught ${inspect(error)}` };
        return { name: String(error.name), value: String(error.message), traceback: inspect(error) };
    };

    const INTERRUPTED = { name: 'Interrupted', value: 'the cell was interrupted', traceback: 'Interrupted: the cell was interrupted' };
    const isInterrupt = (error) => error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';

    /* What process.exit() throws: the cell ends, the context stays. */
    const EXIT = { [util.inspect.custom]: () => 'process.exit()' };

    process.exit = (code) => {
        if (code !== undefined)
            process.exitCode = code;
        throw EXIT;
    };

    process.on('uncaughtException', (error) => {
        if (error === EXIT)
            cell?.end(null);
        else if (isInterrupt(error))
            cell?.end(INTERRUPTED);
        else
            complain(`Uncaught ${inspect(error)}`);
    });
    process.on('unhandledRejection', (reason) => {
        if (reason === EXIT)
            cell?.end(null);
        else
            complain(`Uncaught (in promise) ${inspect(reason)}`);
    });

    // Results

    const utf8Cut = (text, max) => Buffer.from(text).subarray(0, max).toString().replace(/\ufffd$/, '');

    /* What stands for a value in a message: a text, bytes in base64, or JSON as it is. */
    const sendable = (mime, value) => {
        if (ArrayBuffer.isView(value))
            return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
        return /\/json$|\+json$/.test(mime) ? value ?? null : String(value);
    };

    /* What a value of JSON takes of CELL_MAX: it is larger, where it is kept, than its text. */
    const memoryOf = (value) => {
        if (typeof value !== 'object' || value === null)
            return 64 + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
        const names = Array.isArray(value) ? 0 : Object.keys(value).reduce((sum, name) => sum + 64 + Buffer.byteLength(name), 0);
        return Object.values(value).reduce((sum, v) => sum + memoryOf(v), 256 + names);
    };

    const bounded = (bundle) => {
        const data = {};
        for (const [mime, raw] of Object.entries(bundle)) {
            let value = sendable(mime, raw);
            const size = Buffer.byteLength(typeof value === 'string' ? value : stringify(value));
            if (size > VALUE_MAX && mime !== 'text/plain') {
                note(`a result of ${mib(size)} of ${mime} was left out: the limit is ${mib(VALUE_MAX)}`);
                continue;
            }
            if (size > VALUE_MAX) {
                note(`a result of ${mib(size)} of ${mime} was cut: the limit is ${mib(VALUE_MAX)}`);
                value = utf8Cut(value, VALUE_MAX);
            }
            data[mime] = value;
        }
        return data;
    };

    const show = (bundle) => {
        if (!cell) {
            // Nobody waits for results between cells.
            toStdout(`${bundle['text/plain'] ?? inspect(bundle)}\n`);
            return;
        }
        if (cell.results === BUNDLES_MAX) {
            cell.left_out++;
            return;
        }
        const data = bounded(bundle);
        if (Object.keys(data).length === 0)
            return;
        const message = stringify({ type: 'result', data });
        const held = Object.values(parse(message).data).reduce((sum, v) => sum + memoryOf(v), 0);
        const size = Math.max(Buffer.byteLength(message), held);
        if (cell.bytes + size > CELL_MAX) {
            cell.left_out++;
            return;
        }
        cell.results++;
        cell.bytes += size;
        sendText(message);
    };

    const isBundle = (value) => value !== null && typeof value === 'object'
        && [Object.prototype, null].includes(Object.getPrototypeOf(value))
        && Object.keys(value).length > 0
        && Object.keys(value).every((key) => /^[\w.+-]+\/[\w.+-]+$/.test(key));

    const hidden = (name, value) =>
        Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });

    hidden('display', (value, mime) =>
        show(mime !== undefined ? { [mime]: value } : isBundle(value) ? value : { 'text/plain': inspect(value) }));

    // Evaluation

    const session = new Session();
    session.connect();

    const STEP = Symbol.for('cay.step');
    const TAKE = Symbol.for('cay.take');
    const stepScript = new vm.Script("globalThis[Symbol.for('cay.step')]()", { filename: DRIVER });

    /* step() where SIGINT breaks it off, by an error that is an interrupt. */
    const guarded = (step) => {
        hidden(STEP, step);
        try {
            return stepScript.runInThisContext({ breakOnSigint: true });
        } finally {
            delete globalThis[STEP];
        }
    };

    const evaluate = (code, name, then) => session.post('Runtime.evaluate',
        { expression: `${code}\n//# sourceURL=${name}`, replMode: true, silent: true, objectGroup: 'cell' }, then);

    /* The thing itself that a RemoteObject stands for. */
    const local = (remote) => {
        if (remote.objectId) {
            let taken;
            hidden(TAKE, (value) => {
                taken = value;
            });
            session.post('Runtime.callFunctionOn', {
                objectId: remote.objectId,
                functionDeclaration: "function (value) { globalThis[Symbol.for('cay.take')](value); }",
                arguments: [{ objectId: remote.objectId }],
            });
            delete globalThis[TAKE];
            return taken;
        }
        const special = remote.unserializableValue;
        if (special !== undefined)
            return special.endsWith('n') ? BigInt(special.slice(0, -1)) : Number(special);
        return remote.value;
    };

    // Imports

    /*
     * Where V8 finds fault with a code, and how it says so. It is never run: no program ends in a lone '#'.
     */
    const faultOf = (code) => {
        let fault;
        evaluate(`${code}\n#`, DRIVER, (_, response) => {
            const details = response?.exceptionDetails;
            fault = details && { text: local(details.exception)?.message, at: offsetOf(code, details) };
        });
        return fault ?? { text: '', at: -1 };
    };

    const LINE_END = /\r\n|[\n\r\u2028\u2029]/g;
    const offsetOf = (code, { lineNumber, columnNumber }) => {
        LINE_END.lastIndex = 0;
        for (let line = 0; line < lineNumber; line++)
            LINE_END.exec(code);
        return LINE_END.lastIndex + columnNumber;
    };

    const STATEMENT = /import(?:([^'"`();=]*?)\bfrom)?\s*(['"])((?:\\.|[^\\\n])*?)\2(?:\s*(?:with|assert)\s*(\{[^}]*\}))?/y;

    /* `import d, {a as b} from 'm'` as what can stand in a script; null where it is nothing we know. */
    const statementAsCall = (code, at) => {
        STATEMENT.lastIndex = at;
        const found = STATEMENT.exec(code);
        if (!found)
            return null;
        const clause = (found[1] ?? '').replace(/\/\*[^]*?\*\/|\/\/.*/g, ' ').trim();
        const parts = /^([^{*,\s]+)?\s*,?\s*(?:\*\s*as\s+(\S+)|\{([^]*)\})?$/.exec(clause);
        if (!parts)
            return null;
        const [, byDefault, space, names] = parts;
        const wanted = (names ?? '').split(',').map((n) => n.trim()).filter(Boolean).map((n) => n.split(/\s+as\s+/));
        if (byDefault)
            wanted.unshift(['default', byDefault]);
        const call = `await __cayImport(${stringify(found[3])}, ${found[4] ? `{ with: ${found[4]} }` : 'undefined'}, `
            + `${stringify(wanted.map(([name]) => name))})`;
        const pattern = `{ ${wanted.map(([name, as]) => (as ? `${name}: ${as}` : name)).join(', ')} }`;
        const text = space ? `const ${space} = ${call}${wanted.length ? `, ${pattern} = ${space}` : ''};`
            : wanted.length ? `const ${pattern} = ${call};` : `${call}; void 0;`;
        const lines = found[0].match(LINE_END)?.length ?? 0;
        return { text: text + '\n'.repeat(lines), end: STATEMENT.lastIndex };
    };

    const withoutImports = (given) => {
        let code = given;
        if (!/\bimport\b/.test(code))
            return code;
        for (;;) {
            const { text, at } = faultOf(code);
            const call = /import statement outside/.test(text) ? statementAsCall(code, at) : null;
            if (!call)
                break;
            code = code.slice(0, at) + call.text + code.slice(call.end);
        }
        // An import() is where import.meta would be wrong because of import.meta; elsewhere it is a name or a text.
        for (const { index } of [...code.matchAll(/\bimport\b(?=\s*\()/g)].reverse()) {
            const rest = code.slice(index + 'import'.length);
            const { text, at } = faultOf(`${code.slice(0, index)}import.meta${rest}`);
            if (/import\.meta/.test(text) && at >= index && at <= index + 'import.meta'.length)
                code = `${code.slice(0, index)}__cayImport${rest}`;
        }
        return code;
    };

    /* Modules are found from the working directory, wherever that is by now. */
    const here = () => {
        try {
            return path.join(process.cwd(), 'cell');
        } catch {
            return '/cell';
        }
    };

    hidden('__cayImport', async (specifier, options, wanted = []) => {
        const name = String(specifier);
        let module;
        try {
            module = await import(/^\.{0,2}\//.test(name) ? new URL(name, pathToFileURL(here())).href : name, options);
        } catch (error) {
            // A package beside a directory that we came to later.
            if (error?.code !== 'ERR_MODULE_NOT_FOUND' || /^[./]/.test(name))
                throw error;
            let found;
            try {
                found = createRequire(here()).resolve(name);
            } catch {
                throw error;
            }
            module = await import(pathToFileURL(found).href, options);
        }
        const missing = wanted.find((key) => !(key in module));
        if (missing !== undefined)
            throw new SyntaxError(`The requested module '${name}' does not provide an export named '${missing}'`);
        return module;
    });

    // Interrupts

    const interrupt = () => cell?.end(INTERRUPTED);
    // Others' handlers, as packages have that clean up at the end, are not called: node would take the signal from us.
    for (const add of ['on', 'addListener', 'prependListener', 'once', 'prependOnceListener']) {
        const original = process[add];
        process[add] = function (event, listener) {
            return event === 'SIGINT' && listener !== interrupt ? this : original.call(this, event, listener);
        };
    }
    process.on('SIGINT', interrupt);

    /*
     * A thread that takes SIGINT when the first thread is not below guarded(): it says so, and if that is not
     * heard, because something loops in a part of a cell behind an await, ends it by V8's inspector. Started by
     * the first cell that looks as if it had such a part: it takes 30 ms and 10 MB.
     */
    const ARMED = 0;
    const BUSY = 1; // the number of the cell that runs, or 0
    const HEARD = 2;
    const PATIENCE_MS = 400;
    const flags = new Int32Array(new SharedArrayBuffer(12));
    const WATCHER = `
        const { workerData: flags, parentPort } = require('worker_threads');
        const session = new (require('inspector').Session)();
        session.connectToMainThread();
        globalThis.rest = () => {
            Atomics.store(flags, ${ARMED}, 1);
            Atomics.notify(flags, ${ARMED});
            Atomics.wait(flags, ${ARMED}, 1);
        };
        const script = new (require('vm').Script)('rest()');
        for (;;) {
            try {
                script.runInThisContext({ breakOnSigint: true });
            } catch {
                const cell = Atomics.load(flags, ${BUSY});
                Atomics.store(flags, ${HEARD}, 0);
                // Again, because what is ended may be who was about to hear it.
                while (cell !== 0 && Atomics.load(flags, ${BUSY}) === cell) {
                    parentPort.postMessage(cell);
                    if (Atomics.wait(flags, ${HEARD}, 0, ${PATIENCE_MS}) !== 'timed-out')
                        break;
                    session.post('Runtime.terminateExecution');
                }
            }
        }`;
    let watcher = null;

    const watch = () => {
        // Now, as guarded() would put it back, and node's handler then take the signal from both threads.
        process.removeListener('SIGINT', interrupt);
        guarded(() => {
            const { Worker } = require('worker_threads');
            watcher = new Worker(WATCHER, { eval: true, workerData: flags });
            watcher.unref();
            Atomics.wait(flags, ARMED, 0, 5000);
        });
        watcher.on('message', (meant) => {
            if (meant === Atomics.load(flags, BUSY))
                interrupt();
            Atomics.store(flags, HEARD, 1);
            Atomics.notify(flags, HEARD);
        });
        watcher.on('error', () => process.on('SIGINT', interrupt));
    };

    // Cells

    const begin = () => new Promise((done) => {
        cell = {
            results: 0,
            bytes: 0,
            left_out: 0,
            end(exception) {
                this.end = () => {};
                Atomics.store(flags, BUSY, 0);
                if (this.left_out)
                    note(`${this.left_out} more results were left out: a cell has at most ${BUNDLES_MAX}, of ${mib(CELL_MAX)}`);
                done(exception);
            },
        };
        Atomics.store(flags, BUSY, cells);
    });

    /* The fault of a code that is none, as node shows it. */
    const pointedAt = (code, name, details) => {
        const error = local(details.exception);
        const line = code.split(LINE_END)[details.lineNumber] ?? '';
        return { ...exceptionOf(error), traceback: `${named(`${name}:${details.lineNumber + 1}`)}\n${line}\n`
            + `${' '.repeat(details.columnNumber)}^\n\n${error}` };
    };

    const conclude = ({ result, exceptionDetails: details }) => {
        if (!details) {
            const value = local(result);
            if (value !== undefined)
                show({ 'text/plain': inspect(value) });
            return null;
        }
        const error = local(details.exception);
        return error === EXIT ? null : exceptionOf(error);
    };

    const perhapsObject = (code) => {
        if (!/^\s*\{/.test(code) || /;\s*$/.test(code))
            return code;
        try {
            return new vm.Script(`(${code}\n)`) && `(${code}\n)`;
        } catch {
            return code;
        }
    };

    const unlessInterrupted = (own, step) => {
        try {
            guarded(step);
        } catch (error) {
            own.end(isInterrupt(error) ? INTERRUPTED : exceptionOf(error));
        }
    };

    const run = async ({ code }) => {
        const name = `cell-${++cells}`;
        const ended = begin();
        const own = cell;
        globalThis.require = createRequire(here());
        if (!watcher && /\b(?:await|async|then)\b/.test(code))
            watch();
        unlessInterrupted(own, () => {
            const text = withoutImports(perhapsObject(code));
            let compiled = false;
            evaluate(text, name, (failure, response) => {
                if (cell !== own) {
                    if (response?.exceptionDetails)
                        complain(`Uncaught ${inspect(local(response.exceptionDetails.exception))}`);
                    return;
                }
                unlessInterrupted(own, () => own.end(failure ? exceptionOf(failure)
                    : compiled ? conclude(response) : pointedAt(text, name, response.exceptionDetails)));
            });
            // What can't be compiled is answered at once, all else by a promise.
            compiled = true;
        });
        const exception = await ended;
        // Rejections that nobody has handled are reported first. What was broken off may have been node's own list of
        // such things to do.
        if (exception !== INTERRUPTED)
            await new Promise((done) => later(done));
        session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
        session.post('Runtime.discardConsoleEntries');
        cell = null;
        const exit_code = exception === INTERRUPTED ? 130 : exception ? 1 : Number(process.exitCode ?? 0);
        process.exitCode = undefined;
        send({ type: 'done', exit_code, exception });
    };

    const control = new net.Socket({ fd: CONTROL, readable: true, writable: false });
    let pending = [];
    let size = 0;
    control.on('data', (bytes) => {
        let rest = bytes;
        for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
            const text = Buffer.concat([...pending, rest.subarray(0, end)]).toString();
            pending = [];
            size = 0;
            run(parse(text));
        }
        pending.push(rest);
        size += rest.length;
        if (size > MESSAGE_MAX)
            process.reallyExit(1);
    });
    control.on('close', () => process.reallyExit(0));
    control.on('error', () => process.reallyExit(1));
    send({ type: 'ready', pid: process.pid });
})();
//# sourceURL=cay-context
