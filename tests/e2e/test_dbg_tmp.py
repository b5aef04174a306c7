import time
from lib import verify, ways
from test_restart import COUNT
def test_dbg(bench, real_kafka):
    way = ways.Way(bench, "kafka-kafka", route='lease = "10s";')
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=3000)
    s = way.sending(batch, rate=1000); time.sleep(1.5)
    real_kafka.stop(); time.sleep(2); real_kafka.start(); s.join()
    arr = way.collector.wait(batch, 40)
    print(verify.judge(batch, arr))
    for l in way.tarry.ask("GET","/metrics")[2].decode().splitlines():
        if l.startswith(("tarry_jobs","tarry_source","tarry_sink_inf","tarry_submitted","tarry_delivery_att")) and not l.endswith(" 0"): print(l)
    import confluent_kafka as ck
    c=ck.Consumer({"bootstrap.servers":real_kafka.address,"group.id":bench.name})
    tps=[ck.TopicPartition(way.topic_in,p) for p in range(4)]
    for t in c.committed(tps): print(t, c.get_watermark_offsets(t))
    o=ck.Consumer({"bootstrap.servers":real_kafka.address,"group.id":"x"})
    for p in range(4): print(o.get_watermark_offsets(ck.TopicPartition(way.topic_out,p)))
    way.tarry.stop()
    assert 0
