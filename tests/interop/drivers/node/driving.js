// Loop of the drivers in JavaScript: a line on stdin is an action, its argument, a topic and a group, with tabs
// between; the answer is a line of JSON.
const { writeSync } = require("fs");
const { createInterface } = require("readline");

const COUNT = 10;
const WAIT_MS = 20_000;

const key = (number) => Buffer.from(`key-${number}`);
const value = (number) => Buffer.from(`value-${number};`.repeat(20));
const timestampMs = (number) => 1_700_000_000_000 + number * 1000;
const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString());
const numbers = Array.from({ length: COUNT }, (_, number) => number);

async function drive(actions) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, argument, topic, group] = line.split("\t");
    let answer;
    try {
      const known = Object.hasOwn(actions, action);
      answer = known ? ((await actions[action](topic, argument || group)) ?? {}) : { unknown: action };
    } catch (error) {
      console.error(error);
      answer = { error: causes(error) };
    }
    writeSync(1, JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

function causes(error) {
  const more = [error.cause, ...(error.errors ?? [])].filter((each) => each);
  const name = error.apiId ?? error.type ?? error.code ?? "";
  return [`${error.name} ${name}: ${error.message}`, ...more.map(causes)].join("; ");
}

async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

module.exports = { COUNT, WAIT_MS, drive, key, numbers, text, timestampMs, value, within };
