// Perfetto's trace engine, as its UI ships it, as a program: requests come on stdin and replies go
// to stdout, each as a length (four bytes, little endian) and a TraceProcessorRpcStream.
'use strict';
const fs = require('fs');
const path = require('path');
const folder = process.argv[2];

// What the engine's bundle finds around itself in a worker of a browser.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = {href: 'http://127.0.0.1/engine_bundle.js', protocol: 'http:', host: '127.0.0.1'};
globalThis.XMLHttpRequest = class {
  open(method, name) {
    this.response = new Uint8Array(fs.readFileSync(path.join(folder, path.basename(name)))).buffer;
  }
  send() {}
};
console.log = console.warn = console.error;

// Requests have to wait until the engine has been compiled.
process.on('uncaughtException', (error) => {
  // Without its source line, which is the complete bundle.
  fs.writeSync(2, `${error.stack}`.slice(0, 2000) + '\n');
  process.exit(1);
});

function writeAll(bytes) {
  for (let done = 0; done < bytes.length;) {
    try {
      done += fs.writeSync(1, bytes, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

const port = {
  onmessage: null,
  postMessage(reply) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(reply.length);
    writeAll(length);
    writeAll(reply);
  },
};
new Function('process', fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'))(undefined);
self.onmessage({data: port});

// The engine has answered itself by then that it is ready.
setTimeout(() => {
  let waiting = Buffer.alloc(0);
  process.stdin.on('data', (part) => {
    waiting = waiting.length ? Buffer.concat([waiting, part]) : part;
    while (waiting.length >= 4 && waiting.length >= 4 + waiting.readUInt32LE(0)) {
      const end = 4 + waiting.readUInt32LE(0);
      port.onmessage({data: new Uint8Array(waiting.subarray(4, end))});
      waiting = waiting.subarray(end);
    }
  });
}, 0);
