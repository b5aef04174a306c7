// SPDX-License-Identifier: BSD-2-Clause
// A round trip with the generated TypeScript client: node round_trip.js URL TOKEN
import { AdminApi, Configuration, JobsApi, QueuesApi, ResponseError } from "./tarry";

async function main(basePath: string, accessToken: string): Promise<void> {
  const config = new Configuration({ basePath, accessToken });
  const jobs = new JobsApi(config), queues = new QueuesApi(config);

  const order = { route: "hooks", delayId: "order-1", deliverAfter: "1h", body: { order: 1 } };
  const published = await jobs.publishJob(order);
  const job = await jobs.getJob({ route: "hooks", id: published.id });
  console.log("published", job.id, job.state, job.payload, job.due.getTime() === published.due?.getTime());
  const known = await jobs.publishJob(order);
  console.log("duplicate", known.duplicate, known.because);
  console.log("cancelled", (await jobs.cancelJob({ route: "hooks", id: published.id })).cancelled);
  try {
    await jobs.getJob({ route: "hooks", id: published.id });
  } catch (e) {
    if (!(e instanceof ResponseError)) throw e;
    console.log("error", e.response.status, (await e.response.json()).error);
  }

  await queues.publishQueueJob({ queue: "mails", delayId: "mail-1", delayKey: "k", body: { mail: 1 } });
  const answer = await queues.pullJobs({ queues: "mails", wait: "10s" }); // null: no job became due
  const pulled = answer!.jobs[0];
  console.log("pulled", pulled.id, pulled.payload, pulled.key, pulled.expires, pulled.headers?.["content-type"]);
  console.log("acknowledged", (await queues.ackJob({ queue: "mails", id: pulled.id, token: pulled.token })).was);
  console.log("empty", await queues.pullJobs({ queues: "mails" }));

  const status = await new AdminApi(config).getStatus();
  console.log("status", status.ready, status.nowMs > 2 ** 32);
}

main(process.argv[2]!, process.argv[3]!).catch((e) => {
  console.error(e);
  process.exit(1);
});
