import sys, threading
from test_delayqueue import *
def test_x(own):
    other = own.beside()
    stalls=[]; stop=[]
    def jitter():
        while not stop:
            b=time.time(); time.sleep(0.01); e=time.time()-b
            if e>0.06: stalls.append((b,e))
    threading.Thread(target=jitter,daemon=True).start()
    mon=[]
    def monitor():
        with own.redis.client().monitor() as m:
            for c in m.listen():
                mon.append((c["time"], c["command"][:20]+" "+c["command"][-80:]))
                if stop: return
    threading.Thread(target=monitor,daemon=True).start()
    for i in range(8):
        for api in (own, other):
            due = own.push(f"a{i}", f"t{i}", 1, 60) + 1
            while True:
                b=time.time(); id, at = (other if api is own else own).pop(f"t{i}")
                if id: break
            api.finish(id)
            if at-due>0.1:
                print("LATE", i, api is own, round(at-due,3), "stalls", [(round(x-due,3),round(e,3)) for x,e in stalls if abs(x-due)<1.5])
                for t,c in mon:
                    if -0.05< t-due < 1: print("   ", round(t-due,4), c)
    stop.append(1)
    print("STALLS", len(stalls), max([e for _,e in stalls] or [0]))
    assert 0
