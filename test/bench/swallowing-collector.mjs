/**
 * An OTLP collector that takes everything, reads it to its end, answers well and keeps nothing: what a proxy that exports
 * costs is then its own cost alone. usage: node swallowing-collector.mjs PORT
 */
import { createServer } from 'node:http';

const port = Number(process.argv[2]);

createServer((request, response) => {
  request.resume().on('end', () => {
    // An empty message is a whole success in every one of OTLP's answers.
    response.writeHead(200, { 'Content-Type': request.headers['content-type'] ?? 'application/x-protobuf' });
    response.end(request.headers['content-type'] === 'application/json' ? '{}' : undefined);
  });
}).listen(port, '127.0.0.1');
