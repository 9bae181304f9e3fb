// What a node that waits is started with: `node -r THIS ...`, see warm/node.c. Everything is as far as
// it gets without knowing its program; then it waits for its order in C, and what node has taken
// from its command line is put right: a main script of node's own, eval_string or run_main_module,
// goes on from here, and runs the program as ever, with nothing of ours below it on the stack.
'use strict';

{
  const { isMainThread } = require('worker_threads');
  const Module = require('module');

  // As JavaScript's main scripts have them, by value: null where this node keeps them otherwise.
  // The inspector shows what functions have around them, also node's own.
  const findOptions = (session) => {
    const ask = (method, params) => {
      let answer;
      session.post(method, params, (error, found) => { answer = found; });
      return answer;
    };
    const around = (value, names) => {
      const { internalProperties } = ask('Runtime.getProperties', { objectId: value.objectId });
      const { objectId } = internalProperties.find((p) => p.name === '[[Scopes]]').value;
      for (const { value: scope } of ask('Runtime.getProperties', { objectId, ownProperties: true }).result) {
        if (!scope?.objectId || scope.description === 'Global') continue;
        const variables = ask('Runtime.getProperties', { objectId: scope.objectId, ownProperties: true }).result;
        const found = variables.find((p) => names.includes(p.name) && p.value?.objectId);
        if (found) return found.value;
      }
      return null;
    };
    let options = null;
    Object.defineProperty(globalThis, 'found', {
      configurable: true, get: () => Module.runMain, set: (value) => { options = value; },
    });
    const known = ask('Runtime.evaluate', { expression: 'found' }).result;
    const getOptionValue = around(known, ['getOptionValue']);
    const dictionary = getOptionValue && around(getOptionValue, ['optionsDict', 'optionsMap']);
    if (dictionary) {
      ask('Runtime.callFunctionOn', {
        objectId: dictionary.objectId, functionDeclaration: 'function () { found = this; }',
      });
    }
    delete globalThis.found;
    return options;
  };

  const openOptions = () => {
    const { Session } = require('inspector');
    const session = new Session();
    session.connect();
    const options = findOptions(session);
    session.disconnect();
    if (!options) throw new Error('the options are not where they were looked for');
    return options;
  };

  const setOption = (options, name, value) => {
    if (typeof options.get === 'function') options.set(name, { ...options.get(name), value }); // node 18
    else options[name] = value;
  };

  const setAlias = (name, value) => {
    if (value) Object.defineProperty(process, name, { value, enumerable: true, configurable: true, writable: false });
    else delete process[name];
  };

  // Also in worker threads, to which node hands its own options on.
  const hide = () => {
    delete Module._cache[__filename];
    for (const [request, file] of Object.entries(Module._pathCache))
      if (file === __filename) delete Module._pathCache[request];
    setAlias('_preload_modules', []);
  };

  const takeVariable = (name) => {
    const value = process.env[name];
    delete process.env[name];
    return value;
  };

  // It waits there. The directory and the words of the command line come before the environment.
  const takeOrder = () => {
    const words = [];
    try {
      process.dlopen({ exports: {} }, '/proc/self/fd/1');
    } catch (error) {
      if (!/did not self-register/.test(error.message)) throw error; // it is no module, and is gone again
    }
    process.chdir(takeVariable('\x01'));
    for (let name = '\x010'; name in process.env; name = `\x01${words.length}`) words.push(takeVariable(name));
    return words;
  };

  const beCode = (options, words) => {
    const at = words.findIndex((word) => word === '-e' || word.startsWith('--eval='));
    const end = words[at] === '-e' ? at + 2 : at + 1;
    const code = words[at] === '-e' ? words[at + 1] : words[at].slice('--eval='.length);
    setOption(options, '--eval', code);
    setAlias('_eval', code);
    process.execArgv.splice(0, Infinity, ...words.slice(1, end));
    process.argv.splice(1, Infinity, ...words.slice(end + 1)); // what is between is "--"
  };

  // Bound functions are in no trace, and who looks for its name finds it where it was.
  const beFile = (words, at) => {
    const { runMain } = Module;
    const file = require('path').resolve(words[at]);
    process.execArgv.splice(0, Infinity, ...words.slice(1, at));
    process.argv.splice(1, Infinity, file, ...words.slice(at + 1));
    Object.defineProperty(Module, 'runMain', {
      configurable: true,
      enumerable: true,
      get() {
        Object.defineProperty(Module, 'runMain', { value: runMain, writable: true, enumerable: true, configurable: true });
        return runMain.bind(Module, file);
      },
    });
  };

  hide();
  if (isMainThread) {
    const options = openOptions();
    const code = process._eval !== undefined;
    const before = process.execArgv.length - (code ? 3 : 2); // but for -r, its file, and the code
    const words = takeOrder();
    setOption(options, '--require', []);
    if (code) beCode(options, words);
    else beFile(words, before + 1);
  }
}
