// Browsers start no worker from file://. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.waiting = [];
      this.frame = frame;
      frame.onload = () => this.start(url);
      document.documentElement.append(frame);
    }

    start(url) {
      if (this.inside) return;
      const inside = (this.inside = this.frame.contentWindow);
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      script.onload = () => {
        this.ready = true;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      };
      inside.document.documentElement.append(script);
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
