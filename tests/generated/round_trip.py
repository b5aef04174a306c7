# SPDX-License-Identifier: BSD-2-Clause
"""A round trip with the generated Python client: round_trip.py URL TOKEN"""
import sys

import tarry

url, token = sys.argv[1:]
with tarry.ApiClient(tarry.Configuration(host=url, access_token=token)) as client:
    jobs, queues = tarry.JobsApi(client), tarry.QueuesApi(client)

    published = jobs.publish_job("hooks", delay_id="order-1", deliver_after="1h", body={"order": 1})
    job = jobs.get_job("hooks", published.id)
    print("published", job.id, job.state, job.payload, job.due == published.due)
    known = jobs.publish_job("hooks", delay_id="order-1", deliver_after="1h", body={"order": 1})
    print("duplicate", known.duplicate, known.because)
    print("cancelled", jobs.cancel_job("hooks", published.id).cancelled)
    try:
        jobs.get_job("hooks", published.id)
    except tarry.exceptions.NotFoundException as e:
        print("error", e.status, e.data.error)

    queues.publish_queue_job("mails", delay_id="mail-1", delay_key="k", body={"mail": 1})
    pulled, = queues.pull_jobs("mails", wait="10s").jobs
    print("pulled", pulled.id, pulled.payload, pulled.key, pulled.expires, pulled.headers["content-type"])
    print("acknowledged", queues.ack_job("mails", pulled.id, token=pulled.token).was.value)
    print("empty", queues.pull_jobs("mails"))

    status = tarry.AdminApi(client).get_status()
    print("status", status.ready, status.now_ms > 2**32)
