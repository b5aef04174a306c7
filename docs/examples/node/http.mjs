// SPDX-License-Identifier: BSD-2-Clause
// Publishes, cancels and pulls jobs over HTTP, and verifies signed callbacks. Node 18 or later, without packages.
//
//   node http.mjs publish ROUTE ID DELAY TEXT    stores a job
//   node http.mjs cancel ROUTE ID                cancels it
//   node http.mjs pull QUEUE                     waits for a job, prints it, acknowledges it
//   node http.mjs receive PORT SECRET            prints the next callback if its signature is valid
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const TARRY = process.env.TARRY_HTTP ?? "http://127.0.0.1:7700";
const MAX_AGE_S = 300; // older callbacks may be replays of an attacker
const quoted = encodeURIComponent;

async function call(method, path, body, headers = {}) {
  const answer = await fetch(TARRY + path, { method, body, headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

async function publish(route, id, delay, text) {
  const headers = { "Delay-Id": id, "Deliver-After": delay, "Content-Type": "text/plain" };
  const answer = await call("POST", `/v1/routes/${quoted(route)}/jobs`, text, headers);
  console.log(`${answer.id} is due at ${answer.due}`);
}

async function cancel(route, id) {
  await call("DELETE", `/v1/routes/${quoted(route)}/jobs/${quoted(id)}`);
  console.log(`${id} is cancelled`);
}

async function pull(queue) {
  const answer = await call("POST", `/v1/queues/${quoted(queue)}/pull?wait=30s`);
  for (const job of answer?.jobs ?? []) {
    console.log(job.payload); // process the job here, then acknowledge it
    await call("DELETE", `/v1/queues/${quoted(queue)}/jobs/${quoted(job.id)}?token=${job.token}`);
  }
}

// Verifies a callback as https://www.standardwebhooks.com describes it.
function isGenuine(secret, headers, body) {
  const sent = headers["webhook-timestamp"];
  if (!/^\d+$/.test(sent ?? "") || Math.abs(Date.now() / 1000 - Number(sent)) > MAX_AGE_S) return false;
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const digest = createHmac("sha256", key).update(`${headers["webhook-id"]}.${sent}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${digest}`);
  return (headers["webhook-signature"] ?? "").split(" ").map((one) => Buffer.from(one))
    .some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

function receive(port, secret) {
  const server = createServer(async (request, answer) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts), genuine = isGenuine(secret, request.headers, body);
    console.log(genuine ? body.toString() : "the signature is wrong");
    answer.writeHead(genuine ? 204 : 401, { connection: "close" }).end();
    server.close();
  });
  server.listen(Number(port), "127.0.0.1");
}

const [command, ...words] = process.argv.slice(2);
await { publish, cancel, pull, receive }[command](...words);
